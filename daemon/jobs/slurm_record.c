#include "daemon/jobs/slurm_record.h"

#include "daemon/jobs/job.h"

enum { PATH_SIZE = 4096, RECORD_BYTES = 4096, SETS_BYTES = 16 << 20 };

static const char *const states[] = {
    [SLURM_NONE] = "none", [SLURM_BEGUN] = "begun", [SLURM_LISTED] = "listed", [SLURM_JOINED] = "joined", [SLURM_OVER] = "over"};

static bool in_array(enum slurm_state state) { return state == SLURM_LISTED || state == SLURM_JOINED; }

/* "ATTEMPT STATE", and of a task " INDEX ARRAY DIRECTORY". False: something else. */
static bool parse(const char *text, struct slurm_record *ret) {
    struct slurm_record r = {0};
    char state[16] = "";
    long long attempt = 0;
    int used = 0;
    if (sscanf(text, "%lld %15s%n", &attempt, state, &used) < 2) /* NOLINT(cert-err34-c): what does not fit is no record */
        return false;
    r.attempt = attempt;
    while (r.state < SLURM_OVER && strcmp(state, states[r.state]) != 0)
        r.state++;
    if (strcmp(state, states[r.state]) != 0)
        return false;
    text += used;
    if (in_array(r.state) && sscanf(text, " %d %79s %n", &r.task, r.array, &used) < 2) /* NOLINT(cert-err34-c) */
        return false;
    if (in_array(r.state) && (!str_copy(r.directory, sizeof r.directory, text + used) || !*r.directory))
        return false;
    *ret = r;
    return true;
}

void slurm_record_read(const char *directory, struct slurm_record *ret) {
    char path[PATH_SIZE];
    OWNED_MEMORY char *text = NULL;
    size_t len = 0;
    *ret = (struct slurm_record){.state = SLURM_NONE};
    if (fsio_join(path, sizeof path, directory, "slurm", NULL) || fsio_read(path, RECORD_BYTES, &text, &len, NULL))
        return;
    text[strcspn(text, "\n")] = '\0';
    parse(text, ret);
}

int slurm_record_write(const char *directory, const struct slurm_record *r, struct err *err) {
    char path[PATH_SIZE], text[RECORD_BYTES];
    bool fits = in_array(r->state) ? str_format(text, sizeof text, "%lld %s %d %s %s\n", (long long)r->attempt, states[r->state],
                                                r->task, r->array, r->directory)
                                   : str_format(text, sizeof text, "%lld %s\n", (long long)r->attempt, states[r->state]);
    if (!fits)
        return err_set(err, ERR_RANGE, "the path %.200s… is too long for a job of a cluster", r->directory);
    int rc = fsio_join(path, sizeof path, directory, "slurm", err);
    return rc ? rc : fsio_write_atomic(path, text, strlen(text), err);
}

bool slurm_state_is_over(const char *state) {
    static const char *const over[] = {"BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE", "FAILED",
                                       "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",  "TIMEOUT"};
    return STR_AMONG(state, over) >= 0;
}

int slurm_record_clear(const char *directory, struct err *err) {
    int rc = fsio_remove_in(directory, "exit", err);
    return rc ? rc : fsio_remove_in(directory, "tries", err);
}

int slurm_record_exit(const char *directory) {
    char path[PATH_SIZE];
    OWNED_MEMORY char *text = NULL;
    size_t len = 0;
    if (fsio_join(path, sizeof path, directory, "exit", NULL) || fsio_read(path, 64, &text, &len, NULL))
        return -1;
    return (int)strtol(text, NULL, 10);
}

/* The overrides hold no line ends (jobfile_parse). */
static int write_sets(const char *directory, const char *overrides, struct err *err) {
    OWNED(arena_done) struct arena arena = arena_of(SETS_BYTES);
    OWNED(str_done) struct str text = str_of(SETS_BYTES);
    char path[PATH_SIZE], **sets = NULL;
    int n = 0, rc;
    if ((rc = job_override_items(overrides, &arena, &sets, &n, err)) || (rc = fsio_join(path, sizeof path, directory, "sets", err)))
        return rc;
    for (int i = 0; i < n; i++)
        str_printf(&text, "%s\n", sets[i]);
    return fsio_write_text(path, &text, err);
}

int slurm_record_job(const char *directory, const char *yaml, const char *overrides, struct err *err) {
    char path[PATH_SIZE];
    int rc;
    if ((rc = fsio_join(path, sizeof path, directory, "job.yaml", err)) || (rc = fsio_write_atomic(path, yaml, strlen(yaml), err)))
        return rc;
    return write_sets(directory, overrides, err);
}
