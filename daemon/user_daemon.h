/* user_daemon: `brrd --user`, a daemon for one person: its files are theirs alone, it takes any local path that they can read, and
 * their brrctl finds it without a word. */
#pragma once
#include "base/arena.h"
#include "base/base.h"

/* Makes what such a daemon needs before it reads its configuration: a umask of 0077, the directories of base/user_paths, and a
 * daemon.yaml unless there is one, with the first port from 9465 on that is free. *ret_config: its path; *ret_override:
 * "listen.unix=SOCKET", because clients look there alone. Both in the arena. */
int user_daemon_prepare(struct arena *arena, const char **ret_config, const char **ret_override, struct err *err);
