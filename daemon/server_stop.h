/* server_stop: the end of the daemon. Running jobs checkpoint first, while streams go on and new ones are taken. Then streams are
 * saved and end, then the listeners go, then the loop's handles. Loop thread. */
#pragma once
#include "daemon/server_state.h"

/* Begins the end. Calling it again does nothing. */
void server_stop(struct daemon *d);
/* Streams end now, though jobs may still be saving: somebody asked for the end a second time, or a device is lost. Without it they
 * end once no job runs, and at the latest when 35 s of jobs.stop_wait are left, or 35 % of it if that is less. */
void server_stop_streams(struct daemon *d);
/* Does the next steps that need not wait for jobs or streams any more. Call after each report and tick. */
void server_stop_turn(struct daemon *d);
/* Ends the process when a job or a call has not stopped within jobs.stop_wait. Call while stopping, once a second. Once they have,
 * daemon/deadline limits the rest of the stop: to jobs.stop_wait too, or 10 s if less than that remains. */
void server_leave_if_late(const struct daemon *d);
/* The exit status of the process: 0, or SERVER_RESTART. */
int server_exit_status(const struct daemon *d);
/* The handles of server.c; nothing keeps the loop alive then. */
void server_close_handles(struct daemon *d);
