/* skip: leaves a cmocka test undone and says why, in a line that `./dev test` shows at its end ("skipped: REASON"). In CI only
 * reasons of hardware and of data that nobody may publish are accepted: see tools/test_report.py. */
#ifndef BRR_TESTS_SKIP_H
#define BRR_TESTS_SKIP_H
#include "unit/cmocka_all.h"

#define SKIP_NO_EEG "no EEG recordings (BRR_EEG_DIR)"

#define skip_because(reason)                                                                                                       \
    do {                                                                                                                           \
        print_message("skipped: %s\n", reason);                                                                                    \
        skip();                                                                                                                    \
    } while (0)

#endif
