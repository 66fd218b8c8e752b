/* Splits of a manifest by patient. */

#include "base/counted.h"
#include "base/order.h"
#include "formats/letters.h"
#include "windows/manifest.h"

enum {
    ROLE_UNUSED = PATIENT_UNUSED,
    ROLE_TRAIN = PATIENT_TRAINING,
    ROLE_VALIDATION = PATIENT_VALIDATION,
    ROLE_TEST = PATIENT_TEST
};

/* One patient with usable recordings. */
struct patient {
    const char *name;
    int64_t recordings, seizures, seizure_windows;
    uint64_t rank; /* in the draw by fraction */
    int source;
    uint8_t role;
};

struct patients {
    struct patient *items;
    int64_t count;
    int64_t *of_entry; /* (manifest_count) index of the entry's patient, −1 for unusable entries */
};

ORDER_BY(compare_patients, struct patient, strcmp(x->name, y->name))

static int64_t find_patient(const struct patients *p, const char *name) {
    struct patient key = {.name = name};
    const struct patient *found = bsearch(&key, p->items, (size_t)p->count, sizeof key, compare_patients);
    return found ? found - p->items : -1;
}

static void patients_done(struct patients *p) { FREE_MEMBERS(*p, items, of_entry); }

/* Distinct patients in order of name. */
static int patients_init(struct patients *p, const struct manifest *m, struct err *err) {
    int64_t n = manifest_count(m);
    p->items = calloc((size_t)n + 1, sizeof *p->items);
    p->of_entry = calloc((size_t)n + 1, sizeof *p->of_entry);
    p->count = 0;
    if (!p->items || !p->of_entry) {
        patients_done(p);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the patients of %lld recordings", (long long)n);
    }
    int64_t usable = 0;
    for (int64_t i = 0; i < n; i++)
        if (manifest_entry(m, i)->recording)
            p->items[usable++].name = manifest_entry(m, i)->patient;
    SORT(p->items, usable, compare_patients);
    for (int64_t i = 0; i < usable; i++)
        if (!p->count || strcmp(p->items[p->count - 1].name, p->items[i].name))
            p->items[p->count++] = p->items[i];
    for (int64_t i = 0; i < n; i++) {
        const struct manifest_entry *e = manifest_entry(m, i);
        p->of_entry[i] = e->recording ? find_patient(p, e->patient) : -1;
        if (p->of_entry[i] < 0)
            continue;
        struct patient *patient = &p->items[p->of_entry[i]];
        patient->source = e->source;
        struct recording_info info;
        recording_info(e->recording, &info);
        patient->recordings++;
        patient->seizures += info.n_seizures;
        patient->seizure_windows += e->windows[WINDOW_PARTIAL] + e->windows[WINDOW_FULL];
    }
    return 0;
}

/* A few patients' names, for messages. */
static void list_patients(const struct patients *p, struct str *out) {
    for (int64_t i = 0; i < p->count && i < 8; i++)
        str_printf(out, "%s%s", i ? ", " : "", p->items[i].name);
    if (p->count > 8)
        str_puts(out, ", …");
}

static int assign_list(struct patients *p, const char *const *names, int n, uint8_t role, struct err *err) {
    for (int i = 0; i < n; i++) {
        char name[PATH_MAX];
        const int64_t at = find_patient(p, letters_joined(names[i], name, sizeof name) ? name : names[i]);
        if (at < 0) {
            OWNED(str_done) struct str known = str_of(250);
            list_patients(p, &known);
            int rc = err_set(err, ERR_NOT_FOUND, "data.split: patient %s has no usable recording; the %lld patients found are %s",
                             names[i], (long long)p->count, str_cstr(&known));
            return rc;
        }
        if (p->items[at].role != ROLE_UNUSED && p->items[at].role != role)
            return err_set(err, ERR_INVALID,
                           "data.split: patient %s stands in two of train, validation and test; name each patient once", names[i]);
        p->items[at].role = role;
    }
    return 0;
}

static int64_t count_role(const struct patients *p, uint8_t role, bool with_seizures) {
    int64_t n = 0;
    for (int64_t i = 0; i < p->count; i++)
        n += p->items[i].role == role && (!with_seizures || p->items[i].seizure_windows > 0);
    return n;
}

/* Give one patient of role `from` the role `to`, taking the first in order that has seizures or not. false when there is none. */
static bool move_one(struct patient **order, int64_t n, uint8_t from, bool seizures, uint8_t to) {
    for (int64_t i = 0; i < n; i++)
        if (order[i]->role == from && (order[i]->seizure_windows > 0) == seizures) {
            order[i]->role = to;
            return true;
        }
    return false;
}

static int by_rank(const void *a, const void *b) {
    const struct patient *x = *(struct patient *const *)a, *y = *(struct patient *const *)b;
    return order_then(order_u64(x->rank, y->rank), strcmp(x->name, y->name));
}

/* The training patients in the order of the draw; returns their number. */
static int64_t rank_patients(struct patients *p, uint64_t seed, struct patient **order) {
    char salt[32];
    int64_t n = 0;
    str_format(salt, sizeof salt, "%llu", (unsigned long long)seed);
    for (int64_t i = 0; i < p->count; i++) {
        if (p->items[i].role != ROLE_TRAIN)
            continue;
        p->items[i].rank = patient_hash(salt, p->items[i].name);
        order[n++] = &p->items[i];
    }
    SORT(order, n, by_rank);
    return n;
}

/* round(f·n), at least 1, of the n patients of this source (−1: of all) get the role; returns n − their number, or 0 and none gets
 * it when none would be left. */
static int64_t draw_share(struct patient **order, int64_t n, int source, double fraction) {
    int64_t own = 0, wanted;
    for (int64_t i = 0; i < n; i++)
        own += source < 0 || order[i]->source == source;
    wanted = llround(fraction * (double)own);
    wanted = wanted < 1 ? 1 : wanted;
    if (wanted >= own)
        return 0;
    for (int64_t i = 0, drawn = 0; drawn < wanted; i++) {
        bool counts = source < 0 || order[i]->source == source;
        drawn += counts;
        if (counts)
            order[i]->role = ROLE_VALIDATION;
    }
    return own - wanted;
}

/* Draw round(f·n) of the training patients for validation, of several sources in each that has enough of them. If the draw leaves
 * one side without a seizure, one patient changes places. */
static int assign_fraction(const struct manifest *m, struct patients *p, double fraction, uint64_t seed, struct err *err) {
    const struct manifest_source *names;
    OWNED_MEMORY struct patient **order = malloc(sizeof *order * (size_t)(p->count + 1));
    if (!order)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld patients", (long long)p->count);
    int64_t n = rank_patients(p, seed, order), left = 0;
    int sources = manifest_sources(m, &names);
    for (int s = 0; s < sources && sources > 1; s++)
        left += draw_share(order, n, s, fraction);
    if (!left && !draw_share(order, n, -1, fraction)) {
        return err_set(
            err, ERR_PRECONDITION,
            "validation of %.3g of %lld patients leaves none to train on; add patients, or set data.validation_fraction to 0",
            fraction, (long long)n);
    }
    if (!count_role(p, ROLE_VALIDATION, true) && count_role(p, ROLE_TRAIN, true) > 1) {
        move_one(order, n, ROLE_VALIDATION, false, ROLE_TRAIN);
        move_one(order, n, ROLE_TRAIN, true, ROLE_VALIDATION);
    } else if (!count_role(p, ROLE_TRAIN, true) && count_role(p, ROLE_VALIDATION, true) > 1) {
        move_one(order, n, ROLE_VALIDATION, true, ROLE_TRAIN);
        move_one(order, n, ROLE_TRAIN, false, ROLE_VALIDATION);
    }
    return 0;
}

static int by_fold(const void *a, const void *b) {
    const struct patient *x = *(struct patient *const *)a, *y = *(struct patient *const *)b;
    return order_then((x->seizures == 0) - (y->seizures == 0), by_rank(a, b));
}

/* Every folds-th training patient is kept for a test, in the order of the draw, patients with seizures first: each fold has its
 * share of them, and no fold takes all. Labels decide, not windows, so that jobs with other windows have the same folds. */
static int assign_fold(struct patients *p, const struct split_config *c, struct err *err) {
    struct patient **order = malloc(sizeof *order * (size_t)(p->count + 1));
    if (!order)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld patients", (long long)p->count);
    int64_t n = rank_patients(p, c->seed, order);
    SORT(order, n, by_fold);
    for (int64_t i = c->fold - 1; n >= c->folds && i < n; i += c->folds)
        order[i]->role = ROLE_TEST;
    free(order);
    return n >= c->folds ? 0
                         : err_set(err, ERR_PRECONDITION,
                                   "data.split.folds is %lld, but there are %lld patients; expected at most as many folds",
                                   (long long)c->folds, (long long)n);
}

/* By folder: train → 1, dev → 2, eval and the rest stay unused. */
static int assign_folders(const struct manifest *m, struct patients *p, struct err *err) {
    int64_t found[2] = {0, 0};
    for (int64_t i = 0; i < manifest_count(m); i++) {
        const struct manifest_entry *e = manifest_entry(m, i);
        if (p->of_entry[i] < 0)
            continue;
        uint8_t role = !strcmp(e->split, "train") ? ROLE_TRAIN : !strcmp(e->split, "dev") ? ROLE_VALIDATION : ROLE_UNUSED;
        struct patient *patient = &p->items[p->of_entry[i]];
        if (role == ROLE_UNUSED || patient->role == ROLE_TEST)
            continue;
        if (patient->role != ROLE_UNUSED && patient->role != role)
            return err_set(err, ERR_PRECONDITION, "patient %s has recordings below train/ and dev/; splits must not share patients",
                           patient->name);
        patient->role = role;
        found[role - 1]++;
    }
    if (!found[0] || !found[1])
        return err_set(err, ERR_PRECONDITION,
                       "data.split official: %lld recordings below train/ and %lld below dev/; expected some in both, or set "
                       "data.validation_fraction instead",
                       (long long)found[0], (long long)found[1]);
    return 0;
}

/* True if the folders alone say the split, so that nobody has to. */
static bool has_folders(const struct manifest *m, const struct patients *p) {
    bool train = false, dev = false;
    for (int64_t i = 0; i < manifest_count(m); i++) {
        const struct manifest_entry *e = manifest_entry(m, i);
        train |= p->of_entry[i] >= 0 && !strcmp(e->split, "train");
        dev |= p->of_entry[i] >= 0 && !strcmp(e->split, "dev");
    }
    return train && dev;
}

/* What a set without a seizure window consists of. */
struct set_facts {
    int64_t recordings, labelled, seizures, windows;
    double longest_s; /* the longest segment of its recordings */
};

static struct set_facts describe_set(const struct manifest *m, const struct patients *p, uint8_t role) {
    struct set_facts f = {0};
    for (int64_t i = 0; i < manifest_count(m); i++) {
        const struct manifest_entry *e = manifest_entry(m, i);
        struct recording_info info;
        if (p->of_entry[i] < 0 || p->items[p->of_entry[i]].role != role)
            continue;
        recording_info(e->recording, &info);
        f.recordings++;
        f.labelled += info.labelled;
        f.seizures += info.n_seizures;
        f.windows += e->windows[WINDOW_NONE];
        for (int k = 0; k < info.n_segments; k++)
            f.longest_s = fmax(f.longest_s, (double)(info.segments[k].end - info.segments[k].first) / FRONTEND_RATE_HZ);
    }
    return f;
}

static int no_seizure(const struct manifest *m, const struct patients *p, uint8_t role, struct err *err) {
    const char *set = role == ROLE_TRAIN ? "training" : "validation";
    const struct set_facts f = describe_set(m, p, role);
    int64_t window, hop;
    manifest_grid(m, &window, &hop);
    double half_s = (double)window / FRONTEND_RATE_HZ / 2;
    if (f.seizures && !f.windows && f.longest_s < half_s)
        return err_set(err, ERR_PRECONDITION,
                       "the recordings of the %s set are too short for a window: %s in %s, whose longest segment is %.4g s; "
                       "data.window_s %.4g needs at least %.4g s; lower data.window_s",
                       set, counted(f.seizures, "seizure").text, counted(f.recordings, "recording").text, f.longest_s, 2 * half_s,
                       half_s);
    int64_t with = 0;
    const char *name = "";
    for (int64_t i = 0; i < p->count; i++) {
        with += p->items[i].seizure_windows > 0;
        name = p->items[i].seizure_windows > 0 ? p->items[i].name : name;
    }
    if (with == 1 && role == ROLE_TRAIN)
        return err_set(err, ERR_PRECONDITION,
                       "the training set has no seizure: of %s only %s has windows with seizures, and validates; a split by "
                       "patient needs two such patients: add recordings, set data.validation_fraction to 0, or leave out each "
                       "patient in turn (brrctl sweep --folds patients)",
                       counted(p->count, "patient").text, name);
    return err_set(
        err, ERR_PRECONDITION,
        "the %s set has no seizure: %s, %s (%lld with labels), %s, all without seizure; check data.labels, or %s", set,
        counted(count_role(p, role, false), "patient").text, counted(f.recordings, "recording").text, (long long)f.labelled,
        counted(f.windows, "window").text,
        role == ROLE_TRAIN
            ? "choose other patients in data.split.train, or leave out each patient in turn (brrctl sweep --folds patients)"
            : "name patients with seizures in data.split.validation, or set data.validation_fraction to 0");
}

static void assign_kept(const struct known_patients *kept, struct patients *p) {
    for (int64_t i = 0; i < p->count; i++) {
        int role = known_patients_role(kept, p->items[i].name);
        p->items[i].role = role < 0 ? ROLE_UNUSED : (uint8_t)role;
    }
}

static int assign(const struct manifest *m, const struct split_config *c, struct patients *p, struct err *err) {
    int rc;
    if (c->kept) {
        assign_kept(c->kept, p);
        return 0;
    }
    if ((rc = assign_list(p, c->test, c->n_test, ROLE_TEST, err)))
        return rc;
    if (c->official || (!c->n_train && !c->n_validation && !c->folds && has_folders(m, p)))
        return assign_folders(m, p, err);
    if ((rc = assign_list(p, c->train, c->n_train, ROLE_TRAIN, err)) ||
        (rc = assign_list(p, c->validation, c->n_validation, ROLE_VALIDATION, err)))
        return rc;
    for (int64_t i = 0; !c->n_train && i < manifest_count(m); i++)
        if (p->of_entry[i] >= 0 && strcmp(manifest_entry(m, i)->split, "eval") && p->items[p->of_entry[i]].role == ROLE_UNUSED)
            p->items[p->of_entry[i]].role = ROLE_TRAIN;
    if (c->folds && (rc = assign_fold(p, c, err)))
        return rc;
    return !c->n_validation && c->validation_fraction > 0 ? assign_fraction(m, p, c->validation_fraction, c->seed, err) : 0;
}

int manifest_split(const struct manifest *m, const struct split_config *config, uint8_t *role, struct err *err) {
    struct patients p;
    if (!(config->validation_fraction >= 0) || config->validation_fraction >= 1)
        return err_set(err, ERR_INVALID, "validation_fraction is %g; expected 0 to below 1", config->validation_fraction);
    int rc = patients_init(&p, m, err);
    if (rc)
        return rc;
    if (!(rc = assign(m, config, &p, err))) {
        bool validates =
            count_role(&p, ROLE_VALIDATION, false) || (config->kept && known_patients_count(config->kept, PATIENT_VALIDATION));
        if (!count_role(&p, ROLE_TRAIN, true))
            rc = no_seizure(m, &p, ROLE_TRAIN, err);
        else if (validates && !count_role(&p, ROLE_VALIDATION, true))
            rc = no_seizure(m, &p, ROLE_VALIDATION, err);
    }
    for (int64_t i = 0; i < manifest_count(m) && !rc; i++) {
        bool eval = !strcmp(manifest_entry(m, i)->split, "eval") && !config->n_train && !config->n_validation;
        uint8_t of_patient = p.of_entry[i] >= 0 ? p.items[p.of_entry[i]].role : ROLE_UNUSED;
        role[i] = eval && of_patient != ROLE_TEST ? ROLE_UNUSED : of_patient;
    }
    patients_done(&p);
    return rc;
}
