#include "work/jobfile.h"

#define J(field) offsetof(struct jobfile, field)

static const struct option job_rows[] = {
    {"kind", OPTION_STRING, J(written_kind), NULL, 0, 0, NULL, "the kind of work; `brrctl keys` lists them"},
    {"name", OPTION_STRING, J(name), "null", 0, 0, NULL, "a name shown in lists"},
    {"priority", OPTION_I64, J(priority), "5", 0, 9, NULL, "0 (last) to 9 (first)"},
    {"after", OPTION_STRING, J(after), "null", 0, 0, NULL,
     "the id of a job that must succeed before this one starts; if it fails, is cancelled or is deleted, this one is cancelled"},
    {"device", OPTION_STRING, J(device), "null", 0, 0, NULL,
     "the device that runs the job, such as cuda:1; without it a free one with enough memory does"},
    {"devices", OPTION_I64, J(devices), "1", 1, 16, NULL,
     "devices of the daemon that share a network of neurons or a training, whose micro-batches they divide: the same bits on each "
     "number"},
    {"executor", OPTION_STRING, J(executor), "null", 0, 0, NULL,
     "the cluster that runs the job, an entry of executors in daemon.yaml; default: a device of the daemon"},
    {"resources.nodes", OPTION_I64, J(resources.nodes), "1", 1, 65536, NULL, "with executor: machines"},
    {"resources.ranks", OPTION_I64, J(resources.ranks), "1", 1, 65536, NULL,
     "with executor: processes that share a network of neurons or the training, whose micro-batches they divide"},
    {"resources.cpus_per_rank", OPTION_I64, J(resources.cpus_per_rank), "1", 1, 4096, NULL, "with executor: processors of each"},
    {"resources.gpus_per_rank", OPTION_I64, J(resources.gpus_per_rank), "0", 0, 64, NULL, "with executor: GPUs of each"},
    {"resources.time", OPTION_DURATION, J(resources.time_ms), "none", 60000, 0, NULL,
     "with executor: time limit of an attempt there, after which the job goes on in another one"},
    {"array.size", OPTION_I64, J(array.size), "0", 0, JOBFILE_MAX_ARRAY, NULL,
     "with executor: so many jobs are submitted to the cluster together, as one array; `brrctl sweep` sets array.*"},
    {"array.index", OPTION_I64, J(array.index), "0", 0, JOBFILE_MAX_ARRAY - 1, NULL, "the place of this job among them, from 0"},
    {"array.head", OPTION_STRING, J(array.head), "null", 0, 0, NULL, "the id of the first of them; default: this job is the first"},
    {"limits.wall_clock", OPTION_DURATION, J(limits.wall_clock_ms), "none", 1000, 0, NULL,
     "time limit of an attempt; the job writes a checkpoint and stops before it"},
    {"limits.cost", OPTION_F64, J(limits.cost), "0", 0, 1e9, NULL,
     "money that the job may cost, all attempts together, by the daemon's devices_price_per_hour; just before it is spent the job "
     "is saved and ends as interrupted, with the reason cost_limit; 0 = no limit"},
    {"limits.restarts", OPTION_I64, J(limits.restarts), "3", 0, 1000, NULL,
     "restarts after device faults, after crashes of the daemon while the job ran, when a checkpoint or a result could not be "
     "written for want of room or of file descriptors, and after an attempt that reached its time limit without a new step"},
    {"limits.preemptible", OPTION_BOOL, J(limits.preemptible), "true", 0, 0, NULL,
     "a waiting job of higher priority may have the device: this one is saved, and goes on afterwards"},
};
static const struct option checkpoint_rows[] = {
    {"limits.auto_resume", OPTION_BOOL, J(limits.auto_resume), "false", 0, 0, NULL, "queue the job again after the time limit"},
    {"checkpoint.every", OPTION_DURATION, J(checkpoint.every_ms), "15m", 1000, 0, NULL, "time between checkpoints"},
    {"checkpoint.keep", OPTION_I64, J(checkpoint.keep), "3", 1, 1000, NULL, "newest checkpoints to keep in addition to the best"},
    {"checkpoint.upload", OPTION_STRING, J(checkpoint.upload), "none", 0, 0, NULL,
     "destination for copies of checkpoints: store://NAME/prefix, or none"},
};
static const struct option_table job_keys = OPTION_TABLE(job_rows), checkpoint_keys = OPTION_TABLE(checkpoint_rows);

/* The tables of a kind; those before *ret_own write into struct jobfile, the others into the kind's configuration. */
static int tables_of(const struct task_kind *kind, const struct option_table *ret[JOBFILE_MAX_TABLES], int *ret_own) {
    int n = 0;
    ret[n++] = &job_keys;
    if (kind->checkpoints)
        ret[n++] = &checkpoint_keys;
    *ret_own = n;
    for (const struct kind_keys *keys = kind->keys; keys && keys->table && n < JOBFILE_MAX_TABLES; keys++)
        ret[n++] = keys->table;
    return n;
}

int jobfile_tables(const struct task_kind *kind, const struct option_table *ret[JOBFILE_MAX_TABLES]) {
    int own;
    return tables_of(kind, ret, &own);
}

const struct option *jobfile_key(const struct task_kind *kind, const char *key) {
    const struct option_table *tables[JOBFILE_MAX_TABLES];
    int n = jobfile_tables(kind, tables);
    for (int t = 0; t < n; t++)
        for (size_t i = 0; i < tables[t]->count; i++)
            if (!strcmp(tables[t]->rows[i].name, key))
                return &tables[t]->rows[i];
    return NULL;
}

int jobfile_refs(const struct jobfile *job, struct jobfile_ref ret[JOBFILE_MAX_REFS]) {
    int n = 0;
    for (const struct kind_keys *keys = job->kind->keys; keys && keys->table; keys++)
        for (size_t i = 0; i < keys->table->count; i++) {
            const struct option *row = &keys->table->rows[i];
            const char *value = NULL;
            if (row->type == OPTION_MODEL || row->type == OPTION_PATH || row->type == OPTION_RULE)
                memcpy(&value, (const char *)job->config + keys->offset + row->offset, sizeof value);
            const bool file = option_names_file(row->type, value);
            if (value && (file || row->type == OPTION_MODEL) && n < JOBFILE_MAX_REFS)
                ret[n++] = (struct jobfile_ref){row->name, value, file ? OPTION_PATH : OPTION_MODEL};
        }
    return n;
}

static int too_large(const char *file, struct err *err) {
    return err_set(err, ERR_EXHAUSTED, "%s: the job file is too large", file);
}

/* Line ends and other control characters have no place in what is logged and stored. */
static bool has_control(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f || (*text == '\xc2' && (unsigned char)text[1] < 0xa0))
            return true;
    return false;
}

static int check_texts(const char *file, const char *const *overrides, int n, struct err *err) {
    if (has_control(file))
        return err_set(err, ERR_INVALID, "the name of the job file holds a line end or another control character");
    if (n > JOBFILE_MAX_OVERRIDES)
        return err_set(err, ERR_INVALID, "%s: %d overrides (--set); at most %d are accepted, put the others into the file", file, n,
                       JOBFILE_MAX_OVERRIDES);
    for (int i = 0; i < n; i++)
        if (has_control(overrides[i]))
            return err_set(err, ERR_INVALID, "%s: --set %.*s… holds a line end or another control character; leave it out", file,
                           (int)strcspn(overrides[i], "=\n\r"), overrides[i]);
    return 0;
}

static int find_kind(struct jobfile *job, struct err *err) {
    const struct yaml_node *node = yaml_path(job->root, "kind");
    char names[200];
    task_kind_names(names, sizeof names);
    if (!node || yaml_is_null(node))
        return err_set(err, ERR_INVALID, "%s: kind is missing; expected %s", job->file, names);
    if (node->type != YAML_SCALAR)
        return options_error(node, job->file, err, "kind is no plain word; expected %s", names);
    job->kind = task_kind_find(node->text);
    return job->kind ? 0 : options_error(node, job->file, err, "kind is '%.100s'; expected %s", node->text, names);
}

/* A key of the kind's own group that ends as `name` does is what was meant. */
static int foreign_key(const struct jobfile *job, const struct yaml_node *node, const char *name, struct err *err) {
    const char *fixed = job->kind->fixed, *dot = strrchr(name, '.');
    char own[192];
    str_format(own, sizeof own, "%s.%s", job->kind->name, dot ? dot + 1 : name);
    bool meant = jobfile_key(job->kind, own) != NULL;
    return options_error(node, job->file, err, "%s does nothing in a job of kind %s%s%s; %s%s%s", name, job->kind->name,
                         fixed ? ", whose " : "", fixed ? fixed : "", meant ? "did you mean " : "leave it out", meant ? own : "",
                         meant ? "?" : "");
}

/* Keys that only other kinds have would do nothing. `groups`: of the row's name the parts before a dot, else the whole name. */
static int check_foreign(const struct jobfile *job, const struct option_part *parts, size_t n_parts, const char *row, bool groups,
                         struct err *err) {
    size_t len = strlen(row);
    char name[192];
    for (size_t at = groups ? 0 : len; at <= len; at++) {
        const struct yaml_node *node = NULL;
        if ((at < len && row[at] != '.') || (groups && at == len))
            continue;
        str_format(name, sizeof name, "%.*s", (int)at, row);
        if (!options_known(parts, n_parts, name) && (node = yaml_path(job->root, name)))
            return foreign_key(job, node, name, err);
    }
    return 0;
}

static int refuse_foreign(const struct jobfile *job, const struct option_part *parts, size_t n_parts, struct err *err) {
    const struct option_table *tables[JOBFILE_MAX_TABLES];
    int rc = 0;
    for (int pass = 0; pass < 2; pass++) /* the keys themselves make the better message */
        for (int k = 0; k < task_kind_count; k++) {
            int n = jobfile_tables(task_kinds[k], tables);
            for (int t = 0; t < n; t++)
                for (size_t i = 0; !rc && i < tables[t]->count; i++)
                    rc = check_foreign(job, parts, n_parts, tables[t]->rows[i].name, pass, err);
        }
    return rc;
}

static int read_keys(struct jobfile *job, struct arena *arena, struct err *err) {
    const struct option_table *tables[JOBFILE_MAX_TABLES];
    struct option_part parts[JOBFILE_MAX_TABLES];
    int own, n = tables_of(job->kind, tables, &own);
    for (int i = 0; i < n; i++)
        parts[i] = (struct option_part){tables[i], i < own ? (char *)job : (char *)job->config + job->kind->keys[i - own].offset};
    int rc = refuse_foreign(job, parts, (size_t)n, err);
    return rc ? rc : options_read_parts(parts, (size_t)n, job->root, job->file, arena, err);
}

static int check_common(const struct jobfile *job, struct err *err) {
    const char *upload = job->checkpoint.upload;
    if (job->name && has_control(job->name))
        return err_set(err, ERR_INVALID, "%s: name holds a line end or another control character; leave it out", job->file);
    if (job->array.size && job->array.index >= job->array.size)
        return err_set(err, ERR_INVALID, "%s: array.index is %lld; expected less than array.size, %lld", job->file,
                       (long long)job->array.index, (long long)job->array.size);
    if (upload && strcmp(upload, "none") != 0 && !str_starts(upload, "store://"))
        return err_set(err, ERR_INVALID,
                       "%s: checkpoint.upload '%s'; expected store://NAME/prefix of a store in daemon.yaml, or none", job->file,
                       upload);
    return 0;
}

int jobfile_parse(const char *text, const char *file, const char *const *overrides, int n_overrides, struct arena *arena,
                  struct jobfile *ret, struct err *err) {
    struct jobfile job = {.file = arena_strdup(arena, file), .yaml = arena_strdup(arena, text)};
    struct yaml_node *root = NULL;
    if (!job.file || !job.yaml)
        return too_large(file, err);
    int rc = check_texts(file, overrides, n_overrides, err);
    if (!rc)
        rc = yaml_parse(arena, text, strlen(text), file, &root, err);
    for (int i = 0; !rc && i < n_overrides; i++)
        rc = yaml_set(arena, root, overrides[i], err);
    job.root = root;
    if (rc || (rc = find_kind(&job, err)))
        return rc;
    if (!(job.config = arena_alloc(arena, job.kind->config_bytes + 1)))
        return too_large(file, err);
    if ((rc = read_keys(&job, arena, err)) || (rc = check_common(&job, err)) ||
        (job.kind->config && (rc = job.kind->config(&job, arena, err))))
        return rc;
    if (!job.name)
        job.name = job.kind->name;
    *ret = job;
    return 0;
}

struct notice_visit {
    void (*visit)(void *ctx, const char *text);
    void *ctx;
};

static void visit_notice(void *ctx, const char *key, const char *help) {
    struct notice_visit *v = ctx;
    char text[384];
    str_format(text, sizeof text, "%s has no effect: %s", key, help);
    v->visit(v->ctx, text);
}

void jobfile_note(struct jobfile *job, const char *text) {
    if (job->n_notes < JOBFILE_MAX_NOTES)
        job->notes[job->n_notes++] = text;
}

void jobfile_notices(const struct jobfile *job, void (*visit)(void *ctx, const char *text), void *ctx) {
    const struct option_table *tables[JOBFILE_MAX_TABLES];
    struct notice_visit v = {visit, ctx};
    int n = jobfile_tables(job->kind, tables);
    for (int i = 0; i < n; i++)
        options_notices(tables[i], job->root, visit_notice, &v);
    for (int i = 0; i < job->n_notes; i++)
        visit(ctx, job->notes[i]);
}
