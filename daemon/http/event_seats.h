/* event_seats: who has how many of the streams of events that pages hold open. One principal has at most a share of them, and the
 * last ones are kept for callers who see all streams, so that a ward's screen finds a seat whatever others open. Any thread. */
#pragma once

#include "daemon/rpc/auth.h"

/* Of EVENT_SEATS, a principal has at most EVENT_SEATS_OF_ONE (half of all, if it sees all streams), and those who do not see all
 * streams together leave EVENT_SEATS_KEPT. */
enum { EVENT_SEATS = 64, EVENT_SEATS_OF_ONE = 8, EVENT_SEATS_OF_ALL = EVENT_SEATS / 2, EVENT_SEATS_KEPT = 16 };

struct event_seats;
struct event_seats *event_seats_new(void); /* NULL when out of memory */
void event_seats_free(struct event_seats *s);
/* Takes a seat for the caller, who must stay where it is until event_seats_leave; false: it gets none. shared: all callers have one
 * name, because no tokens are configured; then only the number of seats counts. */
bool event_seats_take(struct event_seats *s, const struct auth_caller *caller, bool shared);
void event_seats_leave(struct event_seats *s, const struct auth_caller *caller);
