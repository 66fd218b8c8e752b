#include "eeg/montage_partial.h"

#include "eeg/frontend.h"
#include "eeg/montage.h"

enum { CHAIN = 5, CHAINS = 5 };
static const char *const chains[CHAINS][CHAIN] = {{"Fp1", "F7", "T3", "T5", "O1"},
                                                  {"Fp1", "F3", "C3", "P3", "O1"},
                                                  {"Fp2", "F4", "C4", "P4", "O2"},
                                                  {"Fp2", "F8", "T4", "T6", "O2"},
                                                  {"Fz", "Cz", "Pz", NULL, NULL}};

/* Cleaned labels, each once. */
struct cleaned {
    char (*names)[MONTAGE_LABEL_SIZE];
    int n;
};

static void cleaned_done(struct cleaned *c) { free(c->names); }

static bool has(const struct cleaned *c, const char *name) {
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->names[i], name))
            return true;
    return false;
}

/* A montage that is being written: its text, and the channels of the recording that it reads. */
struct part {
    struct str text;
    int used;
};

static void part_done(struct part *p) { str_done(&p->text); }

/* Appends a-b, unless it stands there already: two chains share their ends. */
static bool partial_pair(struct part *p, const char *a, const char *b) {
    char pair[2 * MONTAGE_LABEL_SIZE + 2];
    str_format(pair, sizeof pair, "%s-%s", a, b);
    if (strstr(str_cstr(&p->text), pair))
        return false;
    str_printf(&p->text, "%s%s", p->text.len ? "," : "", pair);
    return true;
}

/* The differences of neighbours in each chain, past electrodes that are missing. */
static void put_chains(const struct cleaned *c, struct part *p) {
    const char *read[CHAINS * CHAIN];
    for (int k = 0; k < CHAINS; k++) {
        const char *before = NULL;
        for (int i = 0; i < CHAIN && chains[k][i]; i++) {
            const char *here = chains[k][i];
            if (!has(c, here))
                continue;
            const char *const pair[] = {before, here};
            bool added = before && partial_pair(p, before, here);
            for (int e = 0; added && e < 2; e++) {
                bool known = false;
                for (int r = 0; r < p->used && !known; r++)
                    known = !strcmp(read[r], pair[e]);
                if (!known)
                    read[p->used++] = pair[e];
            }
            before = here;
        }
    }
}

/* The differences that the recording itself holds: labels with a dash and an electrode. */
static void put_derivations(const struct cleaned *c, struct part *p) {
    for (int i = 0; i < c->n; i++) {
        const char *dash = strchr(c->names[i], '-');
        char a[MONTAGE_LABEL_SIZE], reverse[2 * MONTAGE_LABEL_SIZE];
        const char *label = c->names[i];
        if (!dash || !montage_electrodes(&label, 1) || !str_format(a, sizeof a, "%.*s", (int)(dash - label), label))
            continue;
        str_format(reverse, sizeof reverse, "%s-%s", dash + 1, a);
        if (!strstr(str_cstr(&p->text), reverse))
            p->used += partial_pair(p, a, dash + 1);
    }
}

static int clean_labels(const char *const *labels, int n, struct cleaned *ret, struct err *err) {
    ret->names = calloc((size_t)n + 1, sizeof *ret->names);
    if (!ret->names)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d labels", n);
    for (int i = 0; i < n; i++) {
        montage_clean(labels[i], ret->names[ret->n]);
        ret->n += !has(ret, ret->names[ret->n]);
    }
    return 0;
}

int montage_partial(const char *const *labels, int n_labels, int least, char ret[MONTAGE_PARTIAL_SIZE], struct err *err) {
    OWNED(cleaned_done) struct cleaned cleaned = {.n = 0};
    OWNED(part_done) struct part chained = {.used = 0}, derived = {.used = 0};
    str_init(&chained.text, MONTAGE_PARTIAL_SIZE);
    str_init(&derived.text, MONTAGE_PARTIAL_SIZE);
    int rc = clean_labels(labels, n_labels, &cleaned, err);
    if (rc)
        return rc;
    put_chains(&cleaned, &chained);
    put_derivations(&cleaned, &derived);
    const struct part *best = derived.used > chained.used ? &derived : &chained;
    if (!best->used || best->used < least)
        return err_set(err, ERR_PRECONDITION,
                       "%d channels can be used, and at least %d were asked for%s%s; channels need names of the 10-20 system: give "
                       "others such a name with --rename LABEL=NAME",
                       best->used, least, best->used ? ": " : "", str_cstr(&best->text));
    return str_format(ret, MONTAGE_PARTIAL_SIZE, "custom:%s", str_cstr(&best->text))
               ? 0
               : err_set(err, ERR_RANGE, "more derivations than fit into a montage");
}

/* Whether the labels give this channel. */
static bool can_make(const char *name, const char *const *labels, int n_labels) {
    OWNED_POINTER(montage_free) struct montage *one = NULL;
    char spec[2 * MONTAGE_LABEL_SIZE + sizeof "custom:"];
    return str_format(spec, sizeof spec, "custom:%s", name) && !montage_new(spec, labels, n_labels, &one, NULL);
}

int montage_rest_of(const char *whole, const char *const *labels, int n_labels, int least, struct montage_rest *ret,
                    struct err *err) {
    OWNED(str_done) struct str text = str_of(MONTAGE_PARTIAL_SIZE);
    const char *const *names = NULL;
    int n = 0, rc;
    if ((rc = montage_channels(whole, &names, &n, err)))
        return rc;
    *ret = (struct montage_rest){.channels = 0};
    for (int c = 0; c < n; c++) {
        if (can_make(names[c], labels, n_labels))
            str_printf(&text, "%s%s", ret->channels++ ? "," : "", names[c]);
        else
            ret->absent |= UINT64_C(1) << c;
    }
    montage_channels_free(names);
    if (!ret->channels || ret->channels < least)
        return err_set(err, ERR_PRECONDITION, "%d of the %d channels of montage %.40s can be made, and at least %d are needed%s%s",
                       ret->channels, n, whole, least, ret->channels ? ": " : "", str_cstr(&text));
    if (!str_ok(&text) || !str_format(ret->spec, sizeof ret->spec, "custom:%s", str_cstr(&text)))
        return err_set(err, ERR_RANGE, "montage %.40s has names that are too long for a part of it", whole);
    OWNED_POINTER(montage_free) struct montage *made = NULL;
    if (!(rc = montage_new(ret->spec, labels, n_labels, &made, err)))
        ret->read = made->n_sources;
    return rc;
}
