/* user_paths: where one user's own daemon keeps its files and listens, by the XDG Base Directory Specification. Any thread, as long
 * as nobody changes the environment. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { USER_PATH_SIZE = 1024 };

/* In this order: XDG_CONFIG_HOME or ~/.config, XDG_CACHE_HOME or ~/.cache, XDG_STATE_HOME or ~/.local/state. A variable that is no
 * absolute path does not count. */
enum user_path { USER_CONFIG, USER_CACHE, USER_STATE };
/* Writes "DIRECTORY/brrd" or, with a name, "DIRECTORY/brrd/NAME". The file need not exist. PRECONDITION: neither the variable nor
 * HOME is set. RANGE: the path is too long. */
int user_path(enum user_path kind, const char *name, char buf[USER_PATH_SIZE], struct err *err);
/* Writes the path of the socket: XDG_RUNTIME_DIR/brrd/brrd.sock, or brrd.sock among the state where that variable is not set. */
int user_path_socket(char buf[USER_PATH_SIZE], struct err *err);
/* True if a process listens on that socket now. Never waits. */
bool user_path_answers(const char *socket_path);
/* True if a living daemon of this machine holds its lock in the state folder, which it takes before it listens. Takes no lock
 * itself, not even for a moment. */
bool user_path_locked(void);
