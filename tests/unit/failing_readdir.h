/* failing_readdir: a volume that fails in the middle of a directory. The program is linked with --wrap=readdir. */
#pragma once
#include "base/base.h"

static int entries = -1; /* that a directory gives before its volume fails; -1 = all */
struct dirent *__real_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir) {
    if (!entries) {
        errno = EIO;
        return NULL;
    }
    entries -= entries > 0;
    return __real_readdir(dir);
}
