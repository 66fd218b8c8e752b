/* What a folder of recordings lacks to be a BIDS dataset; declared in bids.h. */

#include "base/json.h"
#include "formats/table.h"
#include "formats/text.h"
#include "windows/bids.h"

enum { PATH_SIZE = 4096 };
static const size_t MAX_JSON = 16 << 20;

struct check {
    const char *root, *relative;
    bids_lack_fn *lack;
    void *ctx;
};

__attribute__((format(printf, 2, 3))) static void tell(const struct check *c, const char *fmt, ...) {
    char text[512];
    STR_ARGUMENTS(text, fmt);
    str_cut_utf8(text);
    c->lack(c->ctx, text);
}

/* The parsed file below root, or NULL with *ret_exists. */
static struct json *load(const struct check *c, const char *name, bool *ret_exists) {
    char path[2 * PATH_SIZE];
    OWNED_MEMORY char *text = NULL;
    struct json *json = NULL;
    size_t len;
    *ret_exists = !fsio_join(path, sizeof path, c->root, name, NULL) && fsio_exists(path);
    if (!*ret_exists || text_read(path, MAX_JSON, &text, &len, NULL) || json_parse(text, len, name, &json, NULL))
        return NULL;
    return json;
}

void bids_check_dataset(const char *root, bids_lack_fn *lack, void *ctx) {
    const struct check c = {root, "", lack, ctx};
    static const char *const required[] = {"Name", "BIDSVersion"};
    static const char *const readmes[] = {"README", "README.md", "README.rst", "README.txt"};
    bool exists, readme = false;
    OWNED_POINTER(json_free) struct json *json = load(&c, "dataset_description.json", &exists);
    if (!json)
        tell(&c, exists ? "dataset_description.json: is no JSON" : "dataset_description.json: missing");
    for (size_t i = 0; json && i < sizeof required / sizeof *required; i++)
        if (!*json_str(json_get(json, required[i]), ""))
            tell(&c, "dataset_description.json: has no %s", required[i]);
    for (size_t i = 0; i < sizeof readmes / sizeof *readmes; i++) {
        char path[PATH_SIZE];
        readme |= !fsio_join(path, sizeof path, root, readmes[i], NULL) && fsio_exists(path);
    }
    if (!readme)
        tell(&c, "README: missing");
}

/* A side file of the recording: its own, or the one that all recordings of the task inherit from the root. */
static struct json *load_side(const struct check *c, const struct bids_name *name, const char *suffix) {
    char own[PATH_SIZE], shared[PATH_SIZE];
    bool exists = false, inherited = false;
    struct json *json = NULL;
    if (!bids_path(name, suffix, own, sizeof own, NULL))
        json = load(c, own, &exists);
    if (!json && !exists && str_format(shared, sizeof shared, "task-%s%s", name->task, suffix))
        json = load(c, shared, &inherited);
    if (!json)
        tell(c, "%s: %s", exists ? own : inherited ? shared : own, exists || inherited ? "is no JSON" : "missing");
    return json;
}

static void check_eeg(const struct check *c, const struct bids_name *name) {
    static const char *const required[] = {"TaskName", "EEGReference", "SamplingFrequency", "PowerLineFrequency",
                                           "SoftwareFilters"};
    OWNED_POINTER(json_free) struct json *json = load_side(c, name, "_eeg.json");
    for (size_t i = 0; json && i < sizeof required / sizeof *required; i++)
        if (!json_get(json, required[i]))
            tell(c, "%s: its _eeg.json has no %s", c->relative, required[i]);
}

/* name, type and units, in this order, and a row for each signal. */
static void check_channels(const struct check *c, const struct bids_name *name, const struct eeg_info *info) {
    static const char *const first[] = {"name", "type", "units"};
    char relative[PATH_SIZE], path[2 * PATH_SIZE];
    struct table t;
    bool more = true;
    int rows = 0, signals = 0;
    if (bids_path(name, "_channels.tsv", relative, sizeof relative, NULL) ||
        fsio_join(path, sizeof path, c->root, relative, NULL) || table_open(&t, path, '\t', NULL, NULL, NULL)) {
        tell(c, "%s: missing or no table", relative);
        return;
    }
    for (int i = 0; i < 3; i++)
        if (table_column(&t, first[i]) != i)
            tell(c, "%s: column %d is not %s", relative, i + 1, first[i]);
    while (!table_next(&t, &more, NULL) && more)
        rows++;
    table_close(&t);
    for (int i = 0; i < info->n_signals; i++)
        signals += !info->signals[i].annotation;
    if (rows != signals)
        tell(c, "%s: %d rows, the recording has %d signals", relative, rows, signals);
}

static void check_events(const struct check *c, const struct bids_name *name) {
    char relative[PATH_SIZE], path[2 * PATH_SIZE];
    if (bids_path(name, "_events.tsv", relative, sizeof relative, NULL) || fsio_join(path, sizeof path, c->root, relative, NULL) ||
        !fsio_exists(path)) {
        tell(c, "%s: missing", relative);
        return;
    }
    json_free(load_side(c, name, "_events.json"));
}

void bids_check_recording(const char *root, const char *relative_path, const struct eeg_info *info, bids_lack_fn *lack, void *ctx) {
    const struct check c = {root, relative_path, lack, ctx};
    struct bids_name name;
    char expected[PATH_SIZE];
    if (bids_name_of(relative_path, &name, NULL) ||
        bids_path(&name, bids_suffix(relative_path, info), expected, sizeof expected, NULL))
        str_copy(expected, sizeof expected, "sub-LABEL/eeg/sub-LABEL_task-LABEL_eeg.edf");
    if (strcmp(expected, relative_path) != 0) {
        tell(&c, "%s: expected the name %s", relative_path, expected);
        return;
    }
    check_eeg(&c, &name);
    check_channels(&c, &name, info);
    check_events(&c, &name);
}
