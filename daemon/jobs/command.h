/* command: a program that is run to its end, for its exit status and what it prints. Any thread; blocks. */
#pragma once

#include "base/base.h"

/* words: the program, found in PATH, its arguments, NULL. environment: as of spawn_start_in; NULL: the caller's. Standard output
 * and error are appended to *out, up to its limit. An exit status other than 0 is no error: *ret_status has it. DEADLINE: the
 * program was killed after timeout_ms; INVALID: a signal ended it; NOT_FOUND: there is no such program. */
int command_run(const char *const *words, const char *const *environment, int64_t timeout_ms, struct str *out, int *ret_status,
                struct err *err);
