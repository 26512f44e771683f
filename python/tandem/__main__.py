"""python -m tandem run [--logical-cpus N] script.py args"""

import argparse
import os
import runpy
import sys


def main():
    parser = argparse.ArgumentParser(prog="python -m tandem")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="runs a TensorFlow or Keras script with tandem in their place")
    run.add_argument("--logical-cpus", type=int, default=0, metavar="N", help="cuts the CPU into N logical ones")
    run.add_argument("--workers", type=int, default=1, metavar="N", help="processes; only 1 so far")
    run.add_argument("script")
    run.add_argument("args", nargs=argparse.REMAINDER)
    commands.add_parser("devices", help="lists the devices")
    options = parser.parse_args()
    import tandem

    if options.command == "devices":
        for device in tandem.config.list_logical_devices():
            print(device)
        return
    if options.workers != 1:
        parser.error("--workers: the Python module trains in one process so far")
    if options.logical_cpus:
        cpu = tandem.config.list_physical_devices("CPU")[0]
        tandem.config.set_logical_device_configuration(cpu, [tandem.config.LogicalDeviceConfiguration()] * options.logical_cpus)
    tandem.as_tensorflow()
    sys.argv = [options.script] + options.args
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
