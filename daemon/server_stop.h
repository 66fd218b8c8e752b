/* server_stop: the end of the daemon. Running jobs checkpoint and streams are saved first, then the listeners go, then the loop's
 * handles. Loop thread. */
#ifndef BRR_DAEMON_SERVER_STOP_H
#define BRR_DAEMON_SERVER_STOP_H
#include "daemon/server_state.h"

/* Begins the end. Calling it again does nothing. */
void server_stop(struct daemon *d);
/* Does the next steps that need not wait for jobs or streams any more. Call after each report and tick. */
void server_stop_turn(struct daemon *d);
/* Ends the process when a job or a call has not stopped within jobs.stop_wait. Call while stopping, once a second. Once they have,
 * daemon/deadline limits the rest of the stop: to jobs.stop_wait too, or 10 s if less than that remains. */
void server_leave_if_late(const struct daemon *d);
/* The exit status of the process: 0, or SERVER_RESTART. */
int server_exit_status(const struct daemon *d);
/* The handles of server.c; nothing keeps the loop alive then. */
void server_close_handles(struct daemon *d);

#endif
