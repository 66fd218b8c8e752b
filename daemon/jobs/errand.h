/* errand: a thread beside the device worker for the file work of its job (device_lend): a volume or a store that does not answer
 * holds up that thread, and the worker goes on with streams. One errand at a time. Owned by the worker's thread. */
#ifndef BRR_DAEMON_JOBS_ERRAND_H
#define BRR_DAEMON_JOBS_ERRAND_H
#include "base/mailbox.h"
#include "kernels/device.h"

struct errand;
/* Starts the thread, with the priority and the arithmetic (subnormals) of the calling one. After each errand a message of this kind
 * is posted to `box`, if that is not closed; pass it to errand_end. */
int errand_open(struct mailbox *box, int kind, struct errand **ret, struct err *err);
void errand_close(struct errand *e); /* NULL is allowed; no errand may be under way */
/* Begins work(arg, err) on the thread. All three must stay valid until errand_end. */
void errand_begin(struct errand *e, device_work_fn *work, void *arg, struct err *err);
/* Waits until the errand has ended and its message has been posted or refused; returns what work returned. */
int errand_end(struct errand *e);

#endif
