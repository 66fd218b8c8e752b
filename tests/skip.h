/* skip: leaves a cmocka test undone and says why, in a line that `./dev test` shows at its end ("skipped: CLASS: REASON"). The
 * class says what the machine lacks; tools/test_report.py knows which classes are failures there. */
#pragma once
#include "unit/cmocka_all.h"

#define SKIP_PACKAGE  "package"  /* a program or library that `./dev test` installs */
#define SKIP_DATA     "data"     /* files that may not be published; the reason ends with the variable that names them */
#define SKIP_RIGHTS   "rights"   /* root, namespaces */
#define SKIP_HARDWARE "hardware" /* a processor's instructions, a GPU and what comes with one */

#define skip_because(class, ...)                                                                                                   \
    do {                                                                                                                           \
        print_message("skipped: " class ": " __VA_ARGS__);                                                                         \
        print_message("\n");                                                                                                       \
        skip();                                                                                                                    \
    } while (0)

#define skip_without_eeg() skip_because(SKIP_DATA, "no EEG recordings (BRR_EEG_DIR)")
