#include "windows/patients.h"

#include "base/counted.h"
#include "base/order.h"
#include "store/digest.h"
#include "windows/manifest.h"

enum { HASH_HEX = 16, SALT_SIZE = DIGEST_HEX_SIZE };

const char *patient_role_name(enum patient_role role) {
    static const char *const names[PATIENT_ROLES] = {"unused", "training", "validation", "test"};
    return names[role];
}

uint64_t patient_hash(const char *salt, const char *name) {
    char hex[DIGEST_HEX_SIZE];
    struct digest *d = digest_new();
    if (d) {
        digest_update(d, salt, strlen(salt));
        digest_update(d, ":", 1);
        digest_update(d, name, strlen(name));
    }
    if (!digest_finish(d, hex))
        return 0;
    hex[HASH_HEX] = '\0';
    return strtoull(hex, NULL, 16);
}

/* Names of the role's patients in order, each once, without their source if `own`; malloc'd, NULL when out of memory. */
static const char **list_names(const struct manifest *m, const uint8_t *role, enum patient_role wanted, bool own,
                               int64_t *ret_count) {
    int64_t n = 0, distinct = 0;
    const char **names = malloc(sizeof *names * (size_t)(manifest_count(m) + 1));
    *ret_count = 0;
    if (!names)
        return NULL;
    for (int64_t i = 0; i < manifest_count(m); i++)
        if (role[i] == wanted && manifest_entry(m, i)->recording)
            names[n++] = own ? manifest_entry(m, i)->own_patient : manifest_entry(m, i)->patient;
    SORT(names, n, order_strings);
    for (int64_t i = 0; i < n; i++)
        if (!distinct || strcmp(names[distinct - 1], names[i]))
            names[distinct++] = names[i];
    *ret_count = distinct;
    return names;
}

static const char **names_of(const struct manifest *m, const uint8_t *role, enum patient_role wanted, int64_t *ret_count) {
    return list_names(m, role, wanted, false, ret_count);
}

int64_t patients_list(const struct manifest *m, const uint8_t *role, enum patient_role wanted, size_t max, struct str *out) {
    int64_t n = 0, i = 0;
    size_t start = out->len;
    const char **names = names_of(m, role, wanted, &n);
    for (; i < n && (!i || out->len - start + strlen(names[i]) + 2 <= max); i++)
        str_printf(out, "%s%s", i ? ", " : "", names[i]);
    if (i < n)
        str_printf(out, ", … and %lld more", (long long)(n - i));
    free(names);
    return n;
}

void patients_put_role(const struct manifest *m, const uint8_t *role, enum patient_role wanted, struct json_writer *w,
                       const char *key) {
    int64_t n = 0;
    const char **names = names_of(m, role, wanted, &n);
    JSON_ARRAY(w, key, names, n);
    free(names);
}

void patients_put_names(const struct manifest *m, const uint8_t *role, struct json_writer *w, const char *key) {
    json_begin_object(w, key);
    for (int r = PATIENT_TRAINING; r < PATIENT_ROLES; r++)
        patients_put_role(m, role, (enum patient_role)r, w, patient_role_name((enum patient_role)r));
    json_end(w, '}');
}

static void put_hashes(const char *const *names, int64_t n, const char *salt, struct json_writer *w) {
    uint64_t *hashes = malloc(sizeof *hashes * (size_t)(n + 1));
    char hex[HASH_HEX + 1];
    for (int64_t i = 0; hashes && i < n; i++)
        hashes[i] = patient_hash(salt, names[i]);
    if (hashes)
        SORT(hashes, n, order_u64s);
    for (int64_t i = 0; hashes && i < n; i++) {
        str_format(hex, sizeof hex, "%016" PRIx64, hashes[i]);
        json_put_str(w, NULL, hex);
    }
    free(hashes);
}

/* True if a role of a training before r has the name; those lists are in order. */
static bool stands_before(const char **const *names, const int64_t *n, int r, const char *name) {
    for (int before = PATIENT_TRAINING; before < r; before++)
        if (n[before] && bsearch(&name, names[before], (size_t)n[before], sizeof *names[before], order_strings))
            return true;
    return false;
}

static void put_dataset(const struct manifest *m, const uint8_t *role, const char *salt, const char *dataset,
                        struct json_writer *w) {
    json_begin_array(w, "in_dataset");
    for (int r = PATIENT_TRAINING; r < PATIENT_ROLES; r++) {
        int64_t n = 0;
        const char **names = list_names(m, role, (enum patient_role)r, true, &n);
        for (int64_t i = 0; names && i < n; i++) {
            char whole[4096], hex[HASH_HEX + 1];
            str_format(whole, sizeof whole, "%s/%s", dataset, names[i]);
            str_format(hex, sizeof hex, "%016" PRIx64, patient_hash(salt, whole));
            json_put_str(w, NULL, hex);
        }
        free(names);
    }
    json_end(w, ']');
}

/* dataset: NULL or "" = none. */
static void put_roles(const struct manifest *m, const uint8_t *role, const char *salt, bool all, const char *dataset,
                      struct json_writer *w) {
    const char **names[PATIENT_ROLES] = {NULL};
    int64_t n[PATIENT_ROLES] = {0};
    json_begin_object(w, NULL);
    json_put_str(w, "salt", salt);
    for (int r = all ? PATIENT_UNUSED : PATIENT_TRAINING; r < PATIENT_ROLES; r++) {
        names[r] = list_names(m, role, (enum patient_role)r, !all, &n[r]);
        int64_t kept = 0;
        for (int64_t i = 0; names[r] && i < n[r]; i++)
            if (all || !stands_before(names, n, r, names[r][i]))
                names[r][kept++] = names[r][i];
        json_begin_array(w, patient_role_name((enum patient_role)r));
        n[r] = kept;
        put_hashes(names[r], n[r], salt, w);
        json_end(w, ']');
    }
    for (int r = 0; r < PATIENT_ROLES; r++)
        free(names[r]);
    if (dataset && *dataset)
        put_dataset(m, role, salt, dataset, w);
    json_end(w, '}');
}

void patients_put_hashes(const struct manifest *m, const uint8_t *role, const char *salt, bool all, struct json_writer *w) {
    put_roles(m, role, salt, all, NULL, w);
}

void patients_put_dataset(const struct manifest *m, const uint8_t *role, const char *salt, const char *dataset,
                          struct json_writer *w) {
    put_roles(m, role, salt, false, dataset, w);
}

int patients_put_earlier(struct json_writer *w, const char *path, char *list, struct err *err) {
    OWNED_POINTER(json_free) struct json *groups = NULL;
    if (!list) {
        json_put_null(w, NULL);
        return 0;
    }
    size_t n = strlen(list);
    int rc = json_parse(list, n, path, &groups, err);
    if (rc)
        return rc;
    if (json_kind(groups) != JSON_KIND_ARRAY)
        return err_set(err, ERR_INVALID, "%s: metadata brr.patients is not an array", path);
    if (json_count(groups)) {
        list[n - 1] = '\0';
        json_put_raw(w, NULL, list + 1);
    }
    return 0;
}

struct known {
    uint64_t hash; /* first: order_u64s */
    int role;
};

struct known_patients {
    char salt[SALT_SIZE];
    struct known *items; /* in order of hash */
    size_t count;
    uint64_t *of_dataset; /* hashes of "DATASET/patient", ascending; NULL: the training states no dataset */
    size_t n_of_dataset;
};

static int read_role(struct known_patients *k, const struct json *hashes, int role, struct err *err) {
    for (size_t i = 0; i < json_count(hashes); i++) {
        const char *hex = json_str(json_at(hashes, i), "");
        char *end;
        uint64_t hash = strtoull(hex, &end, 16);
        if (strlen(hex) != HASH_HEX || *end)
            return err_set(err, ERR_INVALID, "the patients of a training: '%.40s' is not a hash of %d hexadecimal digits", hex,
                           HASH_HEX);
        k->items[k->count++] = (struct known){hash, role};
    }
    return 0;
}

static int by_hash_then_role(const void *a, const void *b) {
    return order_then(order_u64s(a, b), ((const struct known *)b)->role - ((const struct known *)a)->role);
}

/* A patient with used and unused recordings stands there twice: the use counts. */
static void keep_highest_roles(struct known_patients *k) {
    size_t n = 0;
    SORT(k->items, k->count, by_hash_then_role);
    for (size_t i = 0; i < k->count; i++)
        if (!n || k->items[n - 1].hash != k->items[i].hash)
            k->items[n++] = k->items[i];
    k->count = n;
}

int known_patients_read(const struct json *j, struct known_patients **ret, struct err *err) {
    struct known_patients *k = calloc(1, sizeof *k);
    const char *salt = json_str(json_get(j, "salt"), NULL);
    size_t n = 0;
    int rc = 0;
    for (int r = 0; r < PATIENT_ROLES; r++)
        n += json_count(json_get(j, patient_role_name((enum patient_role)r)));
    if (!k || !(k->items = calloc(n + 1, sizeof *k->items)))
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for %zu patients", n);
    else if (!salt || !str_copy(k->salt, sizeof k->salt, salt))
        rc = err_set(err, ERR_INVALID, "the patients of a training: the salt is missing or longer than %d bytes", SALT_SIZE - 1);
    for (int r = 0; !rc && r < PATIENT_ROLES; r++)
        rc = read_role(k, json_get(j, patient_role_name((enum patient_role)r)), r, err);
    if (rc) {
        known_patients_free(k);
        return rc;
    }
    keep_highest_roles(k);
    *ret = k;
    return 0;
}

void known_patients_free(struct known_patients *k) {
    if (!k)
        return;
    FREE_MEMBERS(*k, items, of_dataset);
    free(k);
}

int known_patients_role(const struct known_patients *k, const char *name) {
    uint64_t hash = patient_hash(k->salt, name);
    const struct known *found = k->count ? bsearch(&hash, k->items, k->count, sizeof *k->items, order_u64s) : NULL;
    return found ? found->role : -1;
}

int64_t known_patients_count(const struct known_patients *k, enum patient_role role) {
    int64_t n = 0;
    for (size_t i = 0; i < k->count; i++)
        n += k->items[i].role == (int)role;
    return n;
}

/* ---- the patients of a model ---- */

struct model_patients {
    struct known_patients **trainings;
    size_t n;
    bool known;
};

static int read_dataset(struct known_patients *k, const struct json *hashes, struct err *err) {
    size_t n = json_count(hashes);
    if (!hashes)
        return 0;
    if (!(k->of_dataset = calloc(n + 1, sizeof *k->of_dataset)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %zu patients", n);
    for (size_t i = 0; i < n; i++)
        k->of_dataset[k->n_of_dataset++] = strtoull(json_str(json_at(hashes, i), ""), NULL, 16);
    SORT(k->of_dataset, n, order_u64s);
    return 0;
}

static int read_trainings(struct model_patients *m, const struct json *list, struct err *err) {
    size_t n = json_count(list);
    int rc = 0;
    if (json_kind(list) != JSON_KIND_ARRAY)
        return err_set(err, ERR_INVALID, "the patients of a model: expected a list of trainings");
    if (!(m->trainings = calloc(n + 1, sizeof *m->trainings)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the patients of a model");
    for (size_t i = 0; !rc && i < n; i++) {
        const struct json *training = json_at(list, i);
        if (json_kind(training) == JSON_KIND_NULL)
            m->known = false;
        else if (!(rc = known_patients_read(training, &m->trainings[m->n], err)))
            rc = read_dataset(m->trainings[m->n++], json_get(training, "in_dataset"), err);
    }
    return rc;
}

int model_patients_read(const char *text, struct model_patients **ret, struct err *err) {
    struct model_patients *m = calloc(1, sizeof *m);
    struct json *list = NULL;
    if (!m)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the patients of a model");
    m->known = text != NULL;
    int rc = text ? json_parse(text, strlen(text), "brr.patients", &list, err) : 0;
    if (text && !rc)
        rc = read_trainings(m, list, err);
    json_free(list);
    if (rc)
        model_patients_free(m);
    else
        *ret = m;
    return rc;
}

void model_patients_free(struct model_patients *m) {
    if (!m)
        return;
    for (size_t i = 0; i < m->n; i++)
        known_patients_free(m->trainings[i]);
    free(m->trainings);
    free(m);
}

bool model_patients_known(const struct model_patients *m) { return m->known; }
bool model_patients_nobody(const struct model_patients *m) { return !m->n; }

/* A patient of the same name in another dataset. */
static bool is_other(const struct known_patients *k, const char *dataset, const char *name) {
    char whole[4096];
    if (!dataset || !*dataset || !k->of_dataset || !str_format(whole, sizeof whole, "%s/%s", dataset, name))
        return false;
    const uint64_t hash = patient_hash(k->salt, whole);
    return !k->n_of_dataset || !bsearch(&hash, k->of_dataset, k->n_of_dataset, sizeof hash, order_u64s);
}

enum patient_role model_patients_role(const struct model_patients *m, const char *dataset, const char *name) {
    enum patient_role least = PATIENT_TEST;
    for (size_t i = 0; i < m->n; i++) {
        const int role = known_patients_role(m->trainings[i], name);
        if ((role == PATIENT_TRAINING || role == PATIENT_VALIDATION) && role < (int)least &&
            !is_other(m->trainings[i], dataset, name))
            least = (enum patient_role)role;
    }
    return least;
}

static size_t folder_of(const struct manifest_entry *e) { return (size_t)(fsio_basename(e->relative_path) - e->relative_path); }

/* Entries stand in order of their paths, but those of a folder's subfolders may stand between two of its own. */
bool patients_lone(const struct manifest *m, struct lone_patients *ret) {
    const struct manifest_entry *previous = NULL;
    bool counted = false;
    *ret = (struct lone_patients){0};
    for (int64_t i = 0; i < manifest_count(m); i++) {
        const struct manifest_entry *e = manifest_entry(m, i);
        size_t n = folder_of(e);
        if (!e->recording || !e->lone)
            continue;
        bool same = previous && folder_of(previous) == n && !memcmp(previous->relative_path, e->relative_path, n);
        if (same && !ret->first)
            ret->first = previous->relative_path;
        ret->folders += same && !counted;
        ret->patients += same ? 1 + !counted : 0;
        counted = same;
        previous = e;
    }
    return ret->folders > 0;
}

bool patients_unnamed_of(int64_t lone, int64_t all, char *buf, size_t size) {
    str_format(buf, size, "%lld of %s %s no patient: each counts as one", (long long)lone, counted(all, "recording").text,
               lone == 1 ? "names" : "name");
    return lone > 0;
}

bool patients_unnamed(const struct manifest *m, char *buf, size_t size) {
    int64_t lone = 0, all = 0;
    for (int64_t i = 0; i < manifest_count(m); i++) {
        all += manifest_entry(m, i)->recording != NULL;
        lone += manifest_entry(m, i)->recording && manifest_entry(m, i)->lone;
    }
    return patients_unnamed_of(lone, all, buf, size);
}
