/* seed: where the random cases of a test start: at the same place in each run, unless BRR_TEST_SEED names another seed, as
 * `./dev test --fresh N` does. CTest gives the label `seeded` to the tests whose source calls test_seed. Plain C and C++. */
#pragma once
#include <stdint.h>
#include <stdlib.h>

static inline uint64_t test_seed(void) {
    const char *text = getenv("BRR_TEST_SEED");
    return text ? strtoull(text, NULL, 10) : 20260722;
}
