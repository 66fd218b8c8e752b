/* brrctl: what its commands share: the row of a command, calls, errors, exit codes. A command is a file of a room with its row at
 * the end, and a line of commands.def. */
#pragma once
#include <protobuf-c/protobuf-c.h>

#include "base/json.h"
#include "brr/v1/jobs.pb-c.h"
#include "client/brr.h"
#include "client/brrctl/arguments.h"

OWNABLE(brr_client, brr_disconnect)
OWNABLE(brr_rpc, brr_rpc_close)
#define OWNED_ANSWER OWNED(brrctl_answer_done) /* a message that a call returned, or NULL */

/* Exit codes that scripts can use. */
enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NOT_FOUND = 3, EXIT_UNAVAILABLE = 4, EXIT_AGAIN = 75 };

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
    int min_args, max_args;                /* plain words, where they are not those of `words` ("A [B]": one or two) */
    const char *details;                   /* further lines of --help; an example */
    const struct command_verb *verbs;      /* then options and run are theirs; ends with a row without a name */
};
/* A row: its name, the words, options and function, the summary and the details; further members may follow. */
#define BRRCTL_COMMAND(word, its_words, table, function, text, more, ...)                                                          \
    const struct command command_##word = {                                                                                        \
        .name = #word, .words = its_words, .options = table, .summary = text, .run = function, .details = more, ##__VA_ARGS__}
/* All rows (commands.def), in the order of the help. */
const struct command *const *brrctl_commands(int *ret_n);

/* Asks a person at the terminal: 1 yes, 0 no, -1: there is no terminal. */
int brrctl_confirms(const char *question);
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
void brrctl_answer_done(void *answer); /* the address of a pointer to a message, which may be NULL */
/* One unary call of a method such as "/brr.v1.Jobs/Get"; returns the answer as a message (OWNED_ANSWER), or NULL after printing the
 * error. */
void *brrctl_call(const struct arguments *o, const char *path, const ProtobufCMessage *request, int *ret_exit);
/* Prints the link with which the RPC answers (PageResponse). opens: shows it in the browser too, if the output is a terminal on a
 * desktop. Returns an exit code. */
int brrctl_link(const struct arguments *o, const char *path, const ProtobufCMessage *request, bool opens);
/* As brrctl_call on an open connection, with the error returned. */
void *brrctl_ask(brr_client *client, const char *path, const ProtobufCMessage *request, struct brr_error *err);
void *brrctl_ask_within(brr_client *client, const char *path, const ProtobufCMessage *request, int64_t timeout_ms,
                        struct brr_error *err);
/* One request, several answers; each is freed after visit, which returns false to end the call. Returns an exit code. */
typedef bool brrctl_visit_fn(void *ctx, const void *message);
int brrctl_follow(const struct arguments *o, const char *path, const ProtobufCMessage *request, brrctl_visit_fn *visit, void *ctx);

/* How messages are shown: with --json as lines with the fields of `json` (proto/json.h; NULL: all) and what `put` adds, else as
 * rows of a listing, or by `print`. */
struct listing;
struct brrctl_view {
    const char *json;
    void (*put)(struct json_writer *w, const void *item); /* NULL: nothing */
    const char *titles;                                   /* of the listing */
    void (*row)(struct listing *l, const void *item);     /* NULL: `print` prints each */
    void (*print)(const void *item);
    const char *items; /* the repeated field of the answer whose messages are shown; NULL: the answer itself */
    const char *none;  /* what is said where there are none; NULL: nothing */
};
void brrctl_show_items(const struct arguments *o, const struct brrctl_view *v, void *const *items, size_t n);
/* Calls as brrctl_call and shows the answer. Returns an exit code. */
int brrctl_show(const struct arguments *o, const char *path, const ProtobufCMessage *request, const struct brrctl_view *v);

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

/* The options of the commands for jobs, and the first of sweep. */
struct job_options {
    struct argument_list set;
    const char *name, *after;
    bool watch;
    const char *id_file;
    bool follow, now, csv;
    int64_t tail;
    const char *sort;
};

/* Reads the job file args[0] with --set and --name of struct job_options. */
struct brrctl_job_file {
    Brr__V1__JobFile message;
    char *text, *overrides[ARGUMENTS_MAX_LIST + 16];
    bool budget; /* limits.cost is set */
};
int brrctl_job_file_open(struct brrctl_job_file *f, const struct arguments *o, struct err *err);
/* After a failed call, with its exit code: prints how a data.source that is a folder here is named. */
void brrctl_job_file_hint(const struct arguments *o, int code);
void brrctl_job_file_done(struct brrctl_job_file *f);

/* Writes the estimated cost of `jobs` jobs beside limits.cost into buf and returns it; "" without a price. */
const char *brrctl_cost(const Brr__V1__ValidateResponse *v, int jobs, char *buf, size_t size);

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

/* Makes a call that serves a model, prints the model, and notes which other one it replaced under its name. */
int brrctl_load_model(const struct arguments *o, const char *path, const ProtobufCMessage *in);

/* Prints a note if a name that is served now is that of a built-in model, which it replaces. */
void brrctl_tell_builtin(const char *name);

/* The tables of keys of a kind of job, or of all kinds (NULL), each once; how many. */
enum { BRRCTL_MAX_TABLES = 128 };
struct task_kind;
struct option_table;
int brrctl_key_tables(const struct task_kind *only, const struct option_table *ret[BRRCTL_MAX_TABLES]);
