"""The command `python -m tandem`:

    python -m tandem run [--workers N] [--ps N] [--hosts a,b] [--logical-cpus N] script.py args
    python -m tandem devices
"""

import argparse
import json
import os
import runpy
import sys


def _run_workers(options):
    import _tandem

    command = [sys.executable, "-m", "tandem", "run"]
    if options.logical_cpus:
        command += ["--logical-cpus", str(options.logical_cpus)]
    hosts = [host for host in options.hosts.split(",") if host]
    return _tandem.run_workers(options.workers, options.ps, hosts, options.ssh, command + [options.script] + options.args)


class _Version(argparse.Action):
    def __call__(self, parser, *_):
        import tandem

        print(f"tandem {tandem.tandem_version}, with the names of TensorFlow {tandem.__version__}")
        parser.exit()


def _check(options, run):
    if options.workers < 1:
        run.error(f"--workers {options.workers}: there is at least one")
    if options.ps < 0:
        run.error(f"--ps {options.ps}: there are none or more")
    if options.logical_cpus < 0:
        run.error(f"--logical-cpus {options.logical_cpus}: there is at least one")
    if not options.hosts and not os.path.exists(options.script):
        run.error(f"there is no {options.script} in {os.getcwd()}")


def _tell_of_cluster():
    """Programs for several workers read TF_CONFIG themselves; the addresses are names here, the launcher knows the real ones."""
    size, rank = os.environ.get("TANDEM_WORLD_SIZE"), os.environ.get("TANDEM_RANK")
    if size is None or rank is None or "TF_CONFIG" in os.environ:
        return
    workers = [f"localhost:{20000 + i}" for i in range(int(size))]
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": int(rank)}})


def main():
    """The command `python -m tandem`."""
    parser = argparse.ArgumentParser(prog="python -m tandem", description="Training neural networks on all the devices you have.")
    parser.add_argument("--version", action=_Version, nargs=0, help="says which tandem this is, and whose names it has")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="runs a TensorFlow or Keras script with tandem in their place")
    run.add_argument("--logical-cpus", type=int, default=0, metavar="N", help="cuts the CPU into N logical ones")
    run.add_argument("--workers", type=int, default=1, metavar="N", help="runs it as N processes that train together")
    run.add_argument("--ps", type=int, default=0, metavar="N", help="parameter servers besides; a chief is started then, too")
    run.add_argument("--hosts", default="", metavar="A,B", help="the hosts that they run on; this one without")
    run.add_argument("--ssh", default="ssh", help="the command that reaches hosts")
    run.add_argument("script", help="the Python program, which need not be changed")
    run.add_argument("args", nargs=argparse.REMAINDER, help="what the program is given")
    commands.add_parser("devices", help="lists the devices")
    options = parser.parse_args()
    if options.command == "run":
        _check(options, run)
    import tandem

    if options.command == "devices":
        for device in tandem.config.list_logical_devices():
            print(device)
        return
    if options.workers > 1 or options.hosts or options.ps:
        try:
            sys.exit(_run_workers(options))
        except tandem.errors.OpError as error:
            sys.exit(f"{run.prog}: {error}")
    _tell_of_cluster()
    if options.logical_cpus:
        cpu = tandem.config.list_physical_devices("CPU")[0]
        tandem.config.set_logical_device_configuration(cpu, [tandem.config.LogicalDeviceConfiguration()] * options.logical_cpus)
    tandem.as_tensorflow()
    sys.argv = [options.script] + options.args
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    _run_script(os.path.abspath(options.script))  # __file__ of a program is absolute.


def _run_script(script):
    from tandem.distribute import _cluster

    try:
        runpy.run_path(script, run_name="__main__")
    except _cluster.ServesChief:
        _cluster.serve()
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
