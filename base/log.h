/* log: the process-wide log of daemon/ and client/ (libraries return errors and do not log).
 * One line per call on stderr, as key=value text or JSON. A line that a pipe or socket has no room for is left out and counted in
 * the log itself, so that a reader that has stopped holds up no thread. Any thread. */
#pragma once
#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_setup(enum log_level level, bool json);
/* fields is "job=%s step=%lld"-style printf text of key=value pairs, or NULL. Quote values that may hold
 * blanks with "%s" inside double quotes. Control characters become blanks; a message is cut at 1 KiB, its fields at 2 KiB. */
void log_write(enum log_level level, const char *message, const char *fields, ...) __attribute__((format(printf, 3, 4)));
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
/* Called on the logging thread for each call, also where the level hides the line; one hook, NULL = none. Set it while no
 * other thread logs. */
typedef void log_hook_fn(void *ctx, enum log_level level);
void log_hook(log_hook_fn *hook, void *ctx);
/* "debug", "info", "warn", "error". */
const char *log_level_name(enum log_level level);

/* The name of a bed or a patient for a line of the log, or "-" where the configuration keeps names out of it (log.names); lines
 * name a session, an alarm or a job by its id as well. log_names switches; names are written until its first call. Any thread. */
const char *log_name(const char *name);
void log_names(bool written);
