/* patience: closes the HTTP connections whose requests do not arrive whole, or whose answers are not read, within a time. A client
 * that sends or reads a byte now and then is never silent, so libmicrohttpd's own timeout does not end it. Any thread. */
#pragma once
#include "base/base.h"

/* A request must have arrived PATIENCE_READ_MS after its connection was opened or the answer before was sent; a whole answer must
 * have been read PATIENCE_ANSWER_MS after the request. */
enum { PATIENCE_READ_MS = 20 * 1000, PATIENCE_ANSWER_MS = 60 * 1000, PATIENCE_MOST = 512 };

struct patience;
struct patience_place;
struct patience *patience_new(void); /* NULL when out of memory */
void patience_free(struct patience *p);
/* A connection has been opened: its descriptor is watched until patience_leave, which must come before it is closed. NULL: no place
 * is left, and the connection is not watched. */
struct patience_place *patience_enter(struct patience *p, int fd, int64_t now_ms);
/* The connection may take until this time. INT64_MAX: for ever, as a stream of events may. NULL is allowed. */
void patience_until(struct patience *p, struct patience_place *place, int64_t until_ms);
void patience_leave(struct patience *p, struct patience_place *place);
/* Shuts the connections whose time is over; returns their number. Once a second. */
int patience_look(struct patience *p, int64_t now_ms);
