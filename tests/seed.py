"""Where the random cases of a test start: see seed.h."""
import os


def test_seed():
    return int(os.environ.get("BRR_TEST_SEED", 20260722))
