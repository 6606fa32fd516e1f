"""Each fault can be made, and the test that is named with it exists; `make mutants` tries them."""

from mutants.faults import FAULTS, HOUSE, KILLERS


def test_every_fault_changes_the_source():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert fault.text() != fault.path.read_text(encoding="utf-8")


def test_the_tests_of_faults_exist():
    for test in {*KILLERS, *(fault.test for fault in FAULTS)}:
        path, _, name = test.partition("::")
        source = (HOUSE / "tests" / path).read_text(encoding="utf-8")
        assert not name or f"def {name.split('[')[0]}(" in source
