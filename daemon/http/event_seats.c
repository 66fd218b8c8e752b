#include "daemon/http/event_seats.h"

struct event_seats {
    pthread_mutex_t lock;
    const struct auth_caller *seats[EVENT_SEATS]; /* borrowed; NULL = free */
};

struct event_seats *event_seats_new(void) {
    struct event_seats *s = calloc(1, sizeof *s);
    if (s)
        pthread_mutex_init(&s->lock, NULL);
    return s;
}

void event_seats_free(struct event_seats *s) {
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static bool sees_all(const struct auth_caller *c) { return c->all || c->role >= ROLE_ADMIN; }

bool event_seats_take(struct event_seats *s, const struct auth_caller *caller, bool shared) {
    const bool all = shared || sees_all(caller);
    const int most_of_one = shared ? EVENT_SEATS : all ? EVENT_SEATS_OF_ALL : EVENT_SEATS_OF_ONE;
    int place = -1, own = 0, others = 0; /* others: of callers who do not see all streams */
    LOCKED(&s->lock);
    for (int i = 0; i < EVENT_SEATS; i++) {
        if (!s->seats[i]) {
            place = i;
            continue;
        }
        own += !strcmp(s->seats[i]->name, caller->name);
        others += !sees_all(s->seats[i]);
    }
    const bool may = place >= 0 && own < most_of_one && (all || others < EVENT_SEATS - EVENT_SEATS_KEPT);
    if (may)
        s->seats[place] = caller;
    return may;
}

void event_seats_leave(struct event_seats *s, const struct auth_caller *caller) {
    LOCKED(&s->lock);
    for (int i = 0; i < EVENT_SEATS; i++)
        if (s->seats[i] == caller)
            s->seats[i] = NULL;
}
