"""Models that are cut over devices, in processes of their own: devices are configured before they are used."""

import pathlib

PROGRAMS = pathlib.Path(__file__).parent / "programs"


def test_models_on_four_cpus(run):
    assert " passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(PROGRAMS / "four_cpus.py"))


def test_a_mesh_over_processes(run):
    printed = run("-m", "tandem", "run", "--workers", "2", str(PROGRAMS / "mesh_over_processes.py"))
    assert printed.count("as on one device: True") == 2, printed
