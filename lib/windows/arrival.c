#include "windows/arrival.h"

enum { EPOCHS_LOOKED_AT = 4 };

struct order {
    const struct manifest *manifest;
    const struct arrival_config *config;
    struct recording **items;
    int64_t n;
    uint8_t *seen; /* per entry */
};

static void add(struct order *o, int64_t entry) {
    struct recording *rec = manifest_entry(o->manifest, entry)->recording;
    if (rec && !o->seen[entry])
        o->items[o->n++] = rec;
    o->seen[entry] = 1;
}

static void add_role(struct order *o, uint8_t role) {
    for (int64_t i = 0; i < manifest_count(o->manifest); i++)
        if (o->config->role[i] == role)
            add(o, i);
}

static int64_t count_role(const struct order *o, uint8_t role) {
    int64_t n = 0;
    for (int64_t i = 0; i < manifest_count(o->manifest); i++)
        n += o->config->role[i] == role && manifest_entry(o->manifest, i)->recording;
    return n;
}

static void walk(struct order *o, struct sampler *s) {
    const struct arrival_config *c = o->config;
    int64_t total = sampler_epoch_windows(s), all = count_role(o, c->training) + count_role(o, c->validation);
    int64_t whole = total < c->batch_size ? total : total / c->batch_size * c->batch_size;
    int64_t epoch = c->epoch, at = c->index;
    for (int64_t shown = 0; shown < c->windows && o->n < all; shown++, at++) {
        if (at >= whole) {
            epoch++;
            at = 0;
        }
        if (epoch - c->epoch >= EPOCHS_LOOKED_AT) {
            add_role(o, c->validation);
            add_role(o, c->training);
            return;
        }
        if (shown == c->windows_to_validation)
            add_role(o, c->validation);
        add(o, sampler_at(s, epoch, at).entry);
    }
    add_role(o, c->validation);
}

int arrival_order(const struct manifest *m, struct sampler *s, const struct arrival_config *config, struct recording ***ret,
                  int64_t *ret_n, struct err *err) {
    size_t entries = (size_t)manifest_count(m) + 1;
    struct order o = {
        .manifest = m, .config = config, .items = calloc(entries, sizeof *o.items), .seen = calloc(entries, sizeof *o.seen)};
    if (o.items && o.seen)
        walk(&o, s);
    free(o.seen);
    if (!o.items || !o.seen) {
        free(o.items);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the order of %zu recordings", entries - 1);
    }
    *ret = o.items;
    *ret_n = o.n;
    return 0;
}
