#include "daemon/hooks/fair.h"

#include "base/principal.h"

bool fair_init(struct fair *f, int most) {
    *f = (struct fair){.most = most, .owners = map_new((size_t)most)};
    return f->owners != NULL;
}

void fair_done(struct fair *f) { map_free(f->owners, free); }

static int entries_of(const struct fair *f, const char *owner) {
    const struct fair_owner *o = map_get(f->owners, owner);
    return o ? o->entries : 0;
}

bool fair_has_room(const struct fair *f, const char *owner) {
    return f->n < f->most && entries_of(f, owner) < principal_share(f->most, true);
}

const struct fair_owner *fair_at_limit(const struct fair *f, const char *owner) {
    return entries_of(f, owner) < principal_share(f->most, true) ? NULL : map_get(f->owners, owner);
}

bool fair_add(struct fair *f, struct fair_entry *e, const char *owner) {
    struct fair_owner *o = map_get(f->owners, owner);
    if (!o) {
        const size_t size = strlen(owner) + 1;
        if (!(o = calloc(1, sizeof *o + size)) || map_put(f->owners, owner, o, NULL)) {
            free(o);
            return false;
        }
        memcpy(o->name, owner, size);
        o->turn = f->turn; /* an owner that comes and goes has no more turns than one that stays */
    }
    e->owner = o;
    o->entries++;
    f->n++;
    return true;
}

void fair_remove(struct fair *f, struct fair_entry *e) {
    f->n--;
    fair_end(e);
    if (!--e->owner->entries)
        free(map_remove(f->owners, e->owner->name));
    e->owner = NULL;
}

void fair_begin(struct fair *f, struct fair_entry *e) {
    e->busy = true;
    e->owner->busy++;
    e->owner->turn = ++f->turn;
}

void fair_end(struct fair_entry *e) {
    e->owner->busy -= e->busy;
    e->busy = false;
}

bool fair_before(const struct fair_entry *a, const struct fair_entry *b) {
    if (!b)
        return true;
    if (a->rank != b->rank)
        return a->rank < b->rank;
    if (a->owner != b->owner && a->owner->turn != b->owner->turn)
        return a->owner->turn < b->owner->turn;
    return a->since_ms < b->since_ms;
}

bool fair_may_begin(const struct fair *f, const struct fair_entry *e, int places) {
    return map_count(f->owners) < 2 || e->owner->busy < (places + 1) / 2;
}
