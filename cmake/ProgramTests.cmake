# Runs the examples and the tool, and checks how they end and what they print.

function(tandem_program_test name target status)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "PRINTS;WITH")
  add_test(NAME programs/${name}
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/tools/expect.py
      ${status} ${arg_PRINTS} -- $<TARGET_FILE:${target}> ${arg_WITH})
  set_tests_properties(programs/${name} PROPERTIES TIMEOUT 120)
endfunction()

tandem_program_test(devices tandem_tool 0 WITH devices
  PRINTS "^name +backend +threads +memory$" "^/device:CPU:0 +cpu +[0-9]+ +[0-9]+ MiB$" "!CPU:1")
tandem_program_test(devices_split tandem_tool 0 WITH devices --logical-cpus 4 --test-gpus 1
  PRINTS "^/device:GPU:0 +test +- +-$" "^/device:CPU:0 " "^/device:CPU:3 +cpu +[1-9]" "!CPU:4")
tandem_program_test(devices_refused tandem_tool 105 WITH devices --logical-cpus 0
  PRINTS "--logical-cpus" "not in range 1 to 1024")
tandem_program_test(tune tandem_tool 0
  WITH tune --out ${PROJECT_BINARY_DIR}/providers_of_test --largest 16
  PRINTS "^6 classes of products measured" "^written to .*providers_of_test; use it with")
tandem_program_test(tune_refused tandem_tool 1 WITH tune --out /no/such/folder/table
  PRINTS "^tandem: Unavailable: tune: '/no/such/folder/table.new' cannot be written")
tandem_program_test(no_command tandem_tool 106 PRINTS "subcommand is required")

tandem_program_test(device_scope device_scope 0 WITH --size 64 --test-gpus 1
  PRINTS "^matmul.float32.64,64., float32.64,64..* ran on /device:GPU:0 .the scope names it.$"
         "^/device:GPU:0 -> /device:CPU:0: 1 copies, 4 bytes$")
tandem_program_test(device_scope_refused device_scope 1 WITH --size 64
  PRINTS "^NotFound: random_normal.*'/device:GPU:0' does not exist; the devices are /device:CPU:0$")
tandem_program_test(device_scope_soft device_scope 0 WITH --size 64 --soft-placement
  PRINTS "^matmul.* ran on /device:CPU:0 ./device:GPU:0 does not exist.$" "!copies")

tandem_program_test(two_devices two_devices 0 WITH --size 64 --test-gpus 2
  PRINTS "^matmul.* ran on /device:GPU:0 " "^matmul.* ran on /device:GPU:1 "
         "^add.* ran on /device:GPU:0 .first device.$"
         "^/device:GPU:1 -> /device:GPU:0: 1 copies, 16384 bytes$")
tandem_program_test(two_devices_refused two_devices 1 WITH --size 64 --test-gpus 1
  PRINTS "'/device:GPU:1' does not exist; the devices are /device:GPU:0, /device:CPU:0$")
tandem_program_test(two_devices_soft two_devices 0 WITH --size 64 --soft-placement
  PRINTS "^mean of the sum, computed on /device:CPU:0" "!copies")

tandem_program_test(compiled_function compiled_function 0 WITH --test-gpus 1
  PRINTS "^traced 1 time$" "while_loop" "then:" "otherwise:" "^on /device:GPU:0" "^/device:GPU:0 takes [0-9]+ bytes$"
         "^long: .*0.1740" "^short: .*0.03")
tandem_program_test(mirrored_fit_on_three mirrored_fit 0 WITH --logical-cpus 3 --epochs 1
  PRINTS "^Number of devices: 3$" "^samples seen: 60000$" "^  replica 2 on /device:CPU:2: compute "
         "^79/79 - .*accuracy: 0.[78]")
tandem_program_test(mirrored_fit mirrored_fit 0
  PRINTS "^Number of devices: 2$" "^Epoch 2/2$" "^469/469 - .*/step - .* samples/s - accuracy: 0.[78][0-9]+ - loss: 0.[456]" "^time per step: input "
         "^79/79 - .*accuracy: 0.8[2-9]")
tandem_program_test(custom_training_loop custom_training_loop 0 WITH --rows 300 --epochs 2
  PRINTS "^Number of devices: 2$" "^Epoch: 0, Loss: 2[.]" "^Epoch: 1, Loss: [12][.]" "!Epoch: 2" "!nan")
tandem_program_test(custom_training_loop_on_three custom_training_loop 0 WITH --rows 300 --epochs 1 --logical-cpus 3
  PRINTS "^Number of devices: 3$" "^Epoch: 0, Loss: 2[.]")
tandem_program_test(custom_training_loop_alone custom_training_loop 0 WITH --rows 300 --epochs 1 --logical-cpus 1
  PRINTS "^Number of devices: 1$" "^Epoch: 0, Loss: 2[.]")
tandem_program_test(checkpointing checkpointing 0
  WITH --rows 300 --folder ${PROJECT_BINARY_DIR}/checkpoints_of_test
  PRINTS "^Epoch: 1, Loss: [12][.]" "^Checkpoint saved at .*checkpoints_of_test/ckpt-1$"
         "^Checkpoint saved at .*checkpoints_of_test/ckpt-2$" "^Checkpoint restored.$")
tandem_program_test(regression regression 0 WITH --rows 200 --epochs 10
  PRINTS "^Epoch 10/10$" "^7/7 - .* - loss: 0[.][0-2][0-9]+ - mae: 0[.]" "dense_1 .Dense. .*10,250")
tandem_program_test(gpt gpt 0 WITH --windows 64 --epochs 2 --letters 20
  PRINTS "^76 letters, 622796 parameters$" "^4/4 - .*loss: 4[.]" "^4/4 - .*loss: 3[.]" "GNU GENERAL PUBLIC LICENSE")
tandem_program_test(gpt_refused gpt 1 WITH --text /no/such/text
  PRINTS "^NotFound: /no/such/text has no text of more than 64 letters; name one with --text$")
tandem_program_test(demo demo 0 WITH --rows 6400 --epochs 1
  PRINTS "^100/100 - " "^saved at .*ckpt-1 and restored$" "^test accuracy 0.[78][0-9]+, trained on [0-9]+ pictures/s$")
tandem_program_test(soft_placement soft_placement 0
  PRINTS "^refused: variable 'a_gpu' int32..: no kernel on /device:GPU:0 .backend test."
         "variable 'b_gpu' float32.. -> /device:GPU:0: asked for /device:GPU:0; the scope names it$"
         "variable 'a_gpu' int32.. -> /device:CPU:0: asked for /device:GPU:0; no kernel on /device:GPU:0$"
         "^a_gpu = 1 on /device:CPU:0$")
