# Runs the tool, the bench and the examples, and checks how they end and what they print.

# tandem_program_test(<name> <target without tandem_> <exit status> [SOAK] [CUDA <devices>]
#   [AFTER <name>] [FRESH <folder>] [LEAVES <file>] [PRINTS <expression>...] [WITH <argument>...])
# SOAK marks what takes longer than tests may. CUDA runs it on so many doubles of CUDA devices, where
# NVRTC is installed. The folder is removed before, the file is there afterwards.
function(tandem_program_test name target status)
  cmake_parse_arguments(PARSE_ARGV 3 arg "SOAK" "CUDA;AFTER;FRESH;LEAVES" "PRINTS;WITH")
  if(NOT TARGET tandem_${target})
    return()
  endif()
  add_test(NAME programs/${name}
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/tools/expect.py
      "--fresh=${arg_FRESH}" "--leaves=${arg_LEAVES}"
      ${status} ${arg_PRINTS} -- $<TARGET_FILE:tandem_${target}> ${arg_WITH})
  set(environment
    "POCL_CACHE_DIR=${PROJECT_BINARY_DIR}/pocl;TANDEM_KERNEL_CACHE=${PROJECT_BINARY_DIR}/kernels")
  if(arg_CUDA)
    list(APPEND environment TANDEM_CUDA_LIBRARIES=${PROJECT_BINARY_DIR}/doubles/cuda
      TANDEM_CUDA_DOUBLES=${arg_CUDA})
    set_tests_properties(programs/${name} PROPERTIES
      SKIP_REGULAR_EXPRESSION "kernels need NVIDIA's compiler NVRTC")
  endif()
  set_tests_properties(programs/${name} PROPERTIES ENVIRONMENT "${environment}")
  if(arg_AFTER)
    set_tests_properties(programs/${arg_AFTER} PROPERTIES FIXTURES_SETUP ${arg_AFTER})
    set_tests_properties(programs/${name} PROPERTIES FIXTURES_REQUIRED ${arg_AFTER})
  endif()
  if(arg_SOAK)
    set_tests_properties(programs/${name} PROPERTIES LABELS soak)
  endif()
endfunction()

tandem_program_test(devices tool 0 WITH devices
  PRINTS "^name +backend +threads +memory +hardware$" "^/device:CPU:0 +cpu +[0-9]+ +[0-9]+ MiB +-$" "!CPU:1" "!GPU")
tandem_program_test(devices_opencl tool 0 WITH devices --opencl-cpu
  PRINTS "^/device:GPU:0 +opencl +- +[0-9]+ MiB +.+ by .+, [0-9]+ units, driver OpenCL " "^/device:CPU:0 +cpu ")
tandem_program_test(devices_cuda tool 0 CUDA 3 WITH devices --links --libraries
  PRINTS "^/device:GPU:2 +cuda +- +[0-9]+ MiB +CUDA double 2 by NVIDIA Corporation, .* CUDA 13.0, compute capability 8.1$"
         "^/device:GPU:0 -> /device:GPU:2  PCIe$" "^driver: libcuda.so.1, for CUDA 13.0$"
         "^cuBLAS: libcublas.so.13, version 13.0$" "^cuBLASLt: libcublasLt.so.13, version 13.0$" "^cuDNN: libcudnn.so.9, version 9.19$"
         "^NCCL: libnccl.so.2, version 2.27$")
tandem_program_test(devices_split tool 0 WITH devices --logical-cpus 4 --test-gpus 1
  PRINTS "^/device:GPU:0 +test +- +- +-$" "^/device:CPU:0 " "^/device:CPU:3 +cpu +[1-9][0-9]* +[0-9]+ MiB, shared +-$" "!CPU:4")
tandem_program_test(devices_refused tool 105 WITH devices --logical-cpus 0
  PRINTS "--logical-cpus" "not in range 1 to 1024")
tandem_program_test(tune tool 0
  WITH tune --out ${PROJECT_BINARY_DIR}/providers_of_test --largest 16
  PRINTS "^6 classes of products measured" "^written to .*providers_of_test; use it with")
tandem_program_test(tune_refused tool 1 WITH tune --out /no/such/folder/table
  PRINTS "^tandem: Unavailable: tune: '/no/such/folder/table.new' cannot be written")
tandem_program_test(no_command tool 106 PRINTS "subcommand is required")
tandem_program_test(unknown_command tool 109 WITH nonsense
  PRINTS "^there is no command 'nonsense'; the commands are devices run tune$")
tandem_program_test(version tool 0 WITH --version PRINTS "^tandem ${PROJECT_VERSION}$")

tandem_program_test(bench_help bench 0 WITH --help
  PRINTS "^tandem-bench .NAME...." "^  mlp10 +784-10-10" "^  startup " "!there is no benchmark")
tandem_program_test(bench_unknown bench 2 WITH nonsense
  PRINTS "^tandem-bench: there is no benchmark 'nonsense'; there are:$" "^  mlp10 ")

tandem_program_test(example_help demo 0 WITH --help
  PRINTS "^Usage: " "--epochs .*=5 +Passes over the data$" "!Epoch")
tandem_program_test(example_misspelt_flag demo 109 WITH --epoch 1 PRINTS "not expected: .*--epoch$" "!Epoch")
tandem_program_test(example_refuses_zero demo 105 WITH --epochs=0 PRINTS "--epochs: .*not in range" "!Epoch")

tandem_program_test(device_scope device_scope 0 WITH --size 64 --test-gpus 1
  PRINTS "^matmul.float32.64,64., float32.64,64..* ran on /device:GPU:0 .the scope names it.$"
         "^/device:GPU:0 -> /device:CPU:0: 1 copies, 4 bytes$")
tandem_program_test(device_scope_refused device_scope 1 WITH --size 64
  PRINTS "^NotFound: random_normal.*'/device:GPU:0' does not exist; the devices are /device:CPU:0$"
         "^Where there is no GPU: device_scope --opencl-cpu 1, with PoCL installed, or --test-gpus 1$")
tandem_program_test(device_scope_opencl device_scope 0 WITH --size 64 --opencl-cpu 1
  PRINTS "^matmul.float32.64,64., float32.64,64..* ran on /device:GPU:0 .the scope names it.$"
         "^/device:GPU:0 -> /device:CPU:0: 1 copies, 4 bytes$")
tandem_program_test(device_scope_cuda device_scope 0 CUDA 1 WITH --size 64
  PRINTS "^matmul.float32.64,64., float32.64,64..* ran on /device:GPU:0 .the scope names it.$"
         "^/device:GPU:0 -> /device:CPU:0: 1 copies, 4 bytes$")
tandem_program_test(device_scope_soft device_scope 0 WITH --size 64 --soft-placement
  PRINTS "^matmul.* ran on /device:CPU:0 ./device:GPU:0 does not exist.$" "!copies")

tandem_program_test(two_devices two_devices 0 WITH --size 64 --test-gpus 2
  PRINTS "^matmul.* ran on /device:GPU:0 " "^matmul.* ran on /device:GPU:1 "
         "^add.* ran on /device:GPU:0 .first device.$"
         "^/device:GPU:1 -> /device:GPU:0: 1 copies, 16384 bytes$")
tandem_program_test(two_devices_refused two_devices 1 WITH --size 64 --test-gpus 1
  PRINTS "'/device:GPU:1' does not exist; the devices are /device:GPU:0, /device:CPU:0$"
         "^Where there are no two GPUs: two_devices --opencl-cpu 2, with PoCL installed, or --test-gpus 2$")
tandem_program_test(two_devices_opencl two_devices 0 WITH --size 64 --opencl-cpu 2
  PRINTS "^matmul.* ran on /device:GPU:0 " "^matmul.* ran on /device:GPU:1 "
         "^add.* ran on /device:GPU:0 .first device.$"
         "^/device:GPU:1 -> /device:GPU:0: 1 copies, 16384 bytes$")
tandem_program_test(two_devices_cuda two_devices 0 CUDA 2 WITH --size 64
  PRINTS "^matmul.* ran on /device:GPU:0 " "^matmul.* ran on /device:GPU:1 "
         "^/device:GPU:1 -> /device:GPU:0: 1 copies, 16384 bytes$")
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
tandem_program_test(pipeline_fit pipeline_fit 0 WITH --rows 6000
  PRINTS "^PipelineStrategy: 4 micro-batches$" "^  stage 1 on /device:CPU:1" "^47/47 - .*accuracy: 0.[67]")
tandem_program_test(pipeline_fit_on_one pipeline_fit 0 WITH --rows 6000 --stages 1 --microbatches 3
  PRINTS "^PipelineStrategy: 3 micro-batches$" "!stages wait" "^47/47 - .*accuracy: 0.[67]")
tandem_program_test(pipeline_fit_two tool 0 WITH run --workers 2 -- $<TARGET_FILE:tandem_pipeline_fit> --rows 6000
  PRINTS "^.0. PipelineStrategy: 4 micro-batches$" "^.0.   stage 1 on rank 1" "^.0. 47/47 - .*accuracy: 0.[67]" "!^.1. Epoch")
tandem_program_test(pipeline_fit_refused pipeline_fit 1 WITH --schedule zigzag PRINTS "zigzag.*1f1b")
tandem_program_test(mirrored_fit_cuda mirrored_fit 0 CUDA 2 WITH --rows 512 --epochs 2
  PRINTS "^Number of devices: 2$" "^Epoch 2/2$" "^4/4 - .*loss: [12][.]" "!nan")
tandem_program_test(async_training async_training 0
  WITH --rows 640 --epochs 2 --slow-ms 1 --out ${PROJECT_BINARY_DIR} LEAVES ${PROJECT_BINARY_DIR}/staleness.svg
  PRINTS "^in step +loss [0-9.]+, test accuracy 0[.][0-9]+, " "^unbounded, damped +loss " "^plots: .*/loss_by_time.svg, ")
tandem_program_test(custom_training_loop custom_training_loop 0 WITH --rows 300 --epochs 2
  PRINTS "^Number of devices: 2$" "^Epoch: 0, Loss: 2[.]" "^Epoch: 1, Loss: [12][.]" "!Epoch: 2" "!nan")
tandem_program_test(custom_training_loop_on_three custom_training_loop 0 WITH --rows 300 --epochs 1 --logical-cpus 3
  PRINTS "^Number of devices: 3$" "^Epoch: 0, Loss: 2[.]")
tandem_program_test(custom_training_loop_alone custom_training_loop 0 WITH --rows 300 --epochs 1 --logical-cpus 1
  PRINTS "^Number of devices: 1$" "^Epoch: 0, Loss: 2[.]")
tandem_program_test(custom_training_loop_cuda custom_training_loop 0 CUDA 4 WITH --rows 256 --epochs 1
  PRINTS "^Number of devices: 4$" "^Epoch: 0, Loss: 2[.]" "!nan")
tandem_program_test(multi_worker_fit_alone multi_worker_fit 0 WITH --epochs 1
  PRINTS "^Number of devices: 2$" "^samples seen: 60000$" "^79/79 - .*accuracy: 0.[78]")
tandem_program_test(multi_worker_loop_alone multi_worker_loop 0 WITH --rows 300 --epochs 1
  PRINTS "^Number of devices: 2$" "^Epoch: 0, Loss: 2[.]" "!nan")
tandem_program_test(multi_worker_fit_two tool 0 WITH run --workers 2 -- $<TARGET_FILE:tandem_multi_worker_fit> --epochs 1
  PRINTS "^.0. Number of devices: 4$" "^.0. samples seen: 60000$" "^.0. 79/79 - .*accuracy: 0.[78]" "!^.1. Epoch")
tandem_program_test(multi_worker_loop_two tool 0 WITH
  run --workers 2 -- $<TARGET_FILE:tandem_multi_worker_loop> --rows 300 --epochs 1
  PRINTS "^.0. Number of devices: 4$" "^.0. Epoch: 0, Loss: 2[.]" "!nan")
set(checkpoints ${PROJECT_BINARY_DIR}/checkpoints_of_test)
tandem_program_test(checkpointing checkpointing 0 FRESH ${checkpoints} WITH --rows 300 --folder ${checkpoints}
  PRINTS "!Goes on" "^Epoch: 1, Loss: [12][.]" "^Checkpoint saved at .*checkpoints_of_test/ckpt-1$"
         "^Checkpoint saved at .*checkpoints_of_test/ckpt-2$" "^Checkpoint restored.$")
tandem_program_test(checkpointing_again checkpointing 0 AFTER checkpointing WITH --rows 300 --folder ${checkpoints}
  PRINTS "^Goes on from .*checkpoints_of_test/ckpt-2$" "!Epoch: 1," "^Epoch: 2, Loss: [012][.]"
         "^Checkpoint saved at .*checkpoints_of_test/ckpt-4$" "^Checkpoint restored.$")
tandem_program_test(regression regression 0 WITH --rows 200 --epochs 10
  PRINTS "^Epoch 10/10$" "^7/7 - .* - loss: 0[.][0-2][0-9]+ - mae: 0[.]" "dense_1 .Dense. .*10,250")
tandem_program_test(gpt gpt 0 WITH --windows 60 --epochs=3 --letters 20
  PRINTS "^76 letters, 622796 parameters, 12 steps$" "^4/4 - .*loss: 4[.]" "^4/4 - .*loss: 3[.]"
         "GNU GENERAL PUBLIC LICENSE")
tandem_program_test(gpt_plan gpt 0 WITH --plan 8 --memory 4
  PRINTS "^data [0-9] x stage [0-9] x model [0-9].*: .* ms a step .computes .* MB memory, .* sent by each device$"
         "^best: data [0-9] x stage [0-9] x model [0-9]")
tandem_program_test(gpt_without_text gpt 1 WITH --text /no/such/text
  PRINTS "^NotFound: '/no/such/text' cannot be read$" "^Name a text to learn from with --text FILE.$")
tandem_program_test(gpt_with_too_little gpt 1 WITH --text /dev/null
  PRINTS "^InvalidArgument: '/dev/null' has 0 letters; to learn from it takes more than 64$")
set(demo_folder ${PROJECT_BINARY_DIR}/demo_of_test)
tandem_program_test(demo demo 0 FRESH ${demo_folder} LEAVES ${demo_folder}/ckpt-1.index
  WITH --rows 6400 --epochs 1 --folder ${demo_folder}
  PRINTS "^100/100 - " "^saved at ${demo_folder}/ckpt-1 and restored$" "^test accuracy 0.[78][0-9]+, trained on [0-9]+ pictures/s$")
tandem_program_test(soft_placement soft_placement 0 WITH --test-gpus 1
  PRINTS "^refused: variable 'a_gpu' int32..: no kernel on /device:GPU:0 .backend test."
         "variable 'b_gpu' float32.. -> /device:GPU:0: asked for /device:GPU:0; the scope names it$"
         "variable 'a_gpu' int32.. -> /device:CPU:0: asked for /device:GPU:0; no kernel on /device:GPU:0$"
         "^a_gpu = 1 on /device:CPU:0$")
tandem_program_test(soft_placement_opencl soft_placement 0 WITH --opencl-cpu 1
  PRINTS "^refused: variable 'a_gpu' int32..: no kernel on /device:GPU:0 .backend opencl."
         "variable 'b_gpu' float32.. -> /device:GPU:0: asked for /device:GPU:0; the scope names it$"
         "variable 'a_gpu' int32.. -> /device:CPU:0: asked for /device:GPU:0; no kernel on /device:GPU:0$"
         "^a_gpu = 1 on /device:CPU:0$")
tandem_program_test(soft_placement_cuda soft_placement 0 CUDA 1
  PRINTS "^refused: variable 'a_gpu' int32..: no kernel on /device:GPU:0 .backend cuda."
         "variable 'b_gpu' float32.. -> /device:GPU:0: asked for /device:GPU:0; the scope names it$"
         "^a_gpu = 1 on /device:CPU:0$")
tandem_program_test(soft_placement_refused soft_placement 1
  PRINTS "'/device:GPU:0' does not exist" "^Where there is no GPU: soft_placement --opencl-cpu 1")
tandem_program_test(model_parallel model_parallel 0 WITH --test-gpus 2 --steps 5
  PRINTS "^loss 2[.].* on two GPUs$" "the largest difference is [0-9.]+e-0[5-9]$|the largest difference is 0$")
tandem_program_test(model_parallel_opencl model_parallel 0 WITH --opencl-cpu 2 --steps 5
  PRINTS "^loss 2[.].* on two GPUs$" "the largest difference is [0-9.]+e-0[5-9]$|the largest difference is 0$")
tandem_program_test(model_parallel_cuda model_parallel 0 CUDA 2 WITH --steps 3
  PRINTS "^loss 2[.].* on two GPUs$" "the largest difference is [0-9.]+e-0[5-9]$|the largest difference is 0$")
