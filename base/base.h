/* base: what nearly every file above this floor uses, in one include: the C library, the system calls of files and threads, and
 * errors, texts, ownership by scope, files, tables of members and the clock.
 *
 * A file of lib, daemon, client, tools or tests that needs any of these has it through the other headers that it includes, else
 * includes it itself. base and kernels include what they use, because CUDA and C++ read them; so do the
 * installed headers. */
#pragma once

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fsio.h"
#include "base/members.h"
#include "base/str.h"
