/* fair: which of many waiting entries is served next when their owners share a server: the best class first, in a class the owner
 * that was served longest ago, of an owner the entry that has waited longest. Bounded: `most` entries, nine tenths of them of one
 * owner. An owner has at most half of the places at the server while others wait. One thread at a time. */
#pragma once

#include "base/base.h"
#include "base/map.h"

struct fair_owner {
    int entries, busy;
    int64_t turn; /* when it was served last, or came, as a number that grows */
    char name[];
};

struct fair_entry { /* a member of whatever waits */
    struct fair_owner *owner;
    int rank; /* its class; 0 is served first */
    int64_t since_ms;
    bool busy;
};

struct fair {
    struct map *owners; /* by name; of those with entries */
    int n, most;
    int64_t turn;
};

bool fair_init(struct fair *f, int most); /* false: out of memory */
void fair_done(struct fair *f);
/* Whether one more entry of this owner has room. */
bool fair_has_room(const struct fair *f, const char *owner);
/* This owner where it has its share of the entries, so that only one of its own makes room; else NULL. */
const struct fair_owner *fair_at_limit(const struct fair *f, const char *owner);
bool fair_add(struct fair *f, struct fair_entry *e, const char *owner); /* false: out of memory */
void fair_remove(struct fair *f, struct fair_entry *e);
void fair_begin(struct fair *f, struct fair_entry *e); /* it is being served */
void fair_end(struct fair_entry *e);
/* Whether a is served before b; b NULL: yes. */
bool fair_before(const struct fair_entry *a, const struct fair_entry *b);
/* Whether the owner of e may take one more of `places` at the server. */
bool fair_may_begin(const struct fair *f, const struct fair_entry *e, int places);
