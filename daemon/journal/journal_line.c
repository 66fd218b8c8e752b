#include "daemon/journal/journal_line.h"

struct journal_line *journal_line_new(const struct journal_entry *e) {
    struct journal_line *l = malloc(sizeof *l);
    if (!l)
        return NULL;
    *l = (struct journal_line){.made_ms = clock_ms(), .entry = *e};
    atomic_store(&l->holders, 1);
    return l;
}

struct journal_line *journal_line_hold(struct journal_line *l) {
    atomic_fetch_add(&l->holders, 1);
    return l;
}

void journal_line_drop(struct journal_line *l) {
    if (l && atomic_fetch_sub(&l->holders, 1) == 1)
        free(l);
}
