/* log_name: names of beds and patients in the log. The configuration may keep them out of it (log.names); lines name a session, an
 * alarm or a job by its id as well. Any thread. */
#ifndef BRR_BASE_LOG_NAME_H
#define BRR_BASE_LOG_NAME_H
#include <stdbool.h>

/* Switches the writing of names on or off; they are written until the first call. */
void log_names(bool written);
/* The name, or "-" where names are not written. */
const char *log_name(const char *name);

#endif
