/* brrctl: shared by the command families: calls, errors, exit codes. One file per family; rows in main.c. */
#ifndef BRR_CLIENT_BRRCTL_BRRCTL_H
#define BRR_CLIENT_BRRCTL_BRRCTL_H
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "brr/v1/jobs.pb-c.h"
#include "client/brr.h"
#include "client/brrctl/arguments.h"

OWNABLE(brr_client, brr_disconnect)
OWNABLE(brr_rpc, brr_rpc_close)

/* Exit codes that scripts can use. */
enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NOT_FOUND = 3, EXIT_UNAVAILABLE = 4 };

/* A word after a command that has its own words and options. */
struct command_verb {
    const char *name, *words;
    const struct argument_table *options;
    int (*run)(const struct arguments *o);
    int n_args; /* plain words, with the verb */
};
struct command {
    const char *name, *words;
    const struct argument_table *options; /* NULL = not even the common ones */
    const char *summary;
    int (*run)(const struct arguments *o); /* returns an exit code */
    int min_args, max_args;                /* plain words; max -1 = any number */
    const char *details;                   /* further lines of --help; an example */
    const struct command_verb *verbs;      /* then options and run are theirs; ends with a row without a name */
};
/* All rows, in the order of the help. */
const struct command *brrctl_commands(int *ret_n);

/* Prints "brrctl: …" and returns the exit code of an error. */
int brrctl_fail(const struct err *err);
int brrctl_fail_call(const struct brr_error *err);
/* Report an error of brrctl itself, or of the libraries, as a call's error. Both return the exit code. */
int brrctl_set_error(struct brr_error *ret, int code, const char *text);
int brrctl_keep_error(struct brr_error *ret, const struct err *err);
/* Connects to --endpoint or BRR_ENDPOINT; NULL after printing the error. */
brr_client *brrctl_connect(const struct arguments *o, int *ret_exit);
/* The same with the error for the caller. */
int brrctl_open(const struct arguments *o, brr_client **ret, struct brr_error *err);
/* One unary call; returns the answer as a message (protobuf_c_message_free_unpacked), or NULL after printing the error. timeout_ms
 * 0 = 30 s. */
struct brrctl_method {
    const char *path;
    const ProtobufCMessageDescriptor *answer;
    int64_t timeout_ms;
};
void *brrctl_call(const struct arguments *o, const struct brrctl_method *m, const ProtobufCMessage *request, int *ret_exit);
/* The same on an open connection, with the error returned. */
void *brrctl_ask(brr_client *client, const struct brrctl_method *m, const ProtobufCMessage *request, struct brr_error *err);
/* One request, several answers; each is freed after visit, which returns false to end the call. Returns an exit code. */
typedef bool brrctl_visit_fn(void *ctx, const void *message);
int brrctl_follow(const struct arguments *o, const struct brrctl_method *m, const ProtobufCMessage *request, brrctl_visit_fn *visit,
                  void *ctx);

/* Converts a REF to the daemon's form: a relative path of a local file becomes absolute; any other text is unchanged. Returns buf.
 */
char *brrctl_ref(const char *ref, char *buf, size_t size);

/* Fetches the model file of a REF from the daemon into `path`; its SHA-256 is compared. Returns an exit code after printing the
 * error; then nothing was written. */
struct brrctl_fetched {
    int64_t bytes;
    char sha256[65];
};
int brrctl_fetch_model(const struct arguments *o, const char *ref, const char *path, struct brrctl_fetched *ret);

/* The options of submit, validate, resume and logs, and the first of sweep. */
struct job_options {
    struct argument_list set;
    const char *name;
    bool watch;
    const char *id_file;
    bool follow, now;
    int64_t tail;
};

/* Reads the job file args[0] with --set and --name of struct job_options. */
struct brrctl_job_file {
    Brr__V1__JobFile message;
    char *text, *overrides[ARGUMENTS_MAX_LIST + 16];
};
int brrctl_job_file_open(struct brrctl_job_file *f, const struct arguments *o, struct err *err);
/* After a failed call, with its exit code: prints how a data.source that is a folder here is named. */
void brrctl_job_file_hint(const struct arguments *o, int code);
void brrctl_job_file_done(struct brrctl_job_file *f);

/* Queues it; the daemon's notices go to stderr, its id to id_file unless that is NULL. Returns an exit code and, with 0, the job's
 * id. */
int brrctl_queue(const struct arguments *o, Brr__V1__JobFile *file, const char *id_file, char *id, size_t id_size);
/* Follows a job to its end, with progress on stderr as submit --watch shows it (not with --json). Returns an exit code: 0 when the
 * job ended, in any state. */
struct brrctl_end {
    Brr__V1__JobState state;
    char reason[1024], result[8192]; /* result: JSON, "" = none */
};
int brrctl_watch(const struct arguments *o, const char *id, struct brrctl_end *ret);

/* Makes a call that answers with a model and prints it. */
int brrctl_show_model(const struct arguments *o, const struct brrctl_method *method, const ProtobufCMessage *in);

/* Prints a note if a name that is served now is that of a built-in model, which it replaces. */
void brrctl_tell_builtin(const char *name);

/* The tables of keys of a kind of job, or of all kinds (NULL), each once; how many. */
enum { BRRCTL_MAX_TABLES = 128 };
struct task_kind;
struct option_table;
int brrctl_key_tables(const struct task_kind *only, const struct option_table *ret[BRRCTL_MAX_TABLES]);

/* The options of the commands, beside the code that reads them. */
extern const struct argument_table stream_arguments, detect_arguments, tune_arguments, ensemble_arguments, score_arguments,
    submit_arguments, validate_arguments, job_arguments, cancel_arguments, resume_arguments, logs_arguments, load_arguments,
    checkpoint_arguments, geodesic_arguments, windows_arguments, dataset_arguments, store_arguments, top_arguments,
    metrics_arguments, drain_arguments, usage_arguments, tls_arguments, journal_arguments, alarms_arguments, picture_arguments,
    plot_arguments, compare_arguments, report_arguments, sweep_arguments;
extern const struct command_verb burst_verbs[], lsl_verbs[];

/* Commands, by file. */
int cmd_submit(const struct arguments *o);
int cmd_jobs(const struct arguments *o);
int cmd_job(const struct arguments *o);
int cmd_compare(const struct arguments *o);
int cmd_sweep(const struct arguments *o);
int cmd_picture(const struct arguments *o);
int cmd_plot(const struct arguments *o);
int cmd_report(const struct arguments *o);
int cmd_watch(const struct arguments *o);
int cmd_logs(const struct arguments *o);
int cmd_cancel(const struct arguments *o);
int cmd_delete(const struct arguments *o);
int cmd_resume(const struct arguments *o);
int cmd_version(const struct arguments *o);
int cmd_page(const struct arguments *o);
int cmd_ready(const struct arguments *o);
int cmd_devices(const struct arguments *o);
int cmd_score(const struct arguments *o);
int cmd_tune(const struct arguments *o);
int cmd_ensemble(const struct arguments *o);
int cmd_sessions(const struct arguments *o);
int cmd_journal(const struct arguments *o);
int cmd_alarms(const struct arguments *o);
int cmd_hooks(const struct arguments *o);
int cmd_stream(const struct arguments *o);
int cmd_detect(const struct arguments *o);
int cmd_validate(const struct arguments *o);
int cmd_keys(const struct arguments *o);
int cmd_checkpoints(const struct arguments *o);
int cmd_checkpoint(const struct arguments *o);
int cmd_models(const struct arguments *o);
int cmd_load(const struct arguments *o);
int cmd_unload(const struct arguments *o);
int cmd_geodesic(const struct arguments *o);
int cmd_windows(const struct arguments *o);
int cmd_store(const struct arguments *o);
int cmd_dataset(const struct arguments *o);
int cmd_metrics(const struct arguments *o);
int cmd_top(const struct arguments *o);
int cmd_doctor(const struct arguments *o);
int cmd_drain(const struct arguments *o);
int cmd_usage(const struct arguments *o);
int cmd_backup(const struct arguments *o);
int cmd_tls(const struct arguments *o);
int cmd_completion(const struct arguments *o);

#endif
