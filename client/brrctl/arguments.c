#include "client/brrctl/arguments.h"

#include "base/needed.h"
#include "store/outputs.h"

#define OPTIONS struct arguments

/* The options of all commands. */
static const struct argument common[] = {
    FLAG("--json", json, "print one JSON object per line, for programs"),
    TEXT("--endpoint", endpoint, "E",
         "unix:/path or host:port, or a list of daemons that share streams; default: environment BRR_ENDPOINT"),
    TEXT("--tls-ca", tls_ca, "FILE", "CA of the daemon's certificate; enables TLS for host:port; default BRR_TLS_CA"),
    TEXT("--token-file", token_file, "FILE", "this client's token; default BRR_TOKEN_FILE"),
    TEXT("--tls-cert", tls_cert, "FILE", "this client's certificate; default BRR_TLS_CERT"),
    TEXT("--tls-key", tls_key, "FILE", "private key of this client; default BRR_TLS_KEY"),
};
/* The options of commands that write files. */
static const struct argument force =
    FLAG("--force", force, "replace output files that brrd did not write, or that were changed since");
enum { N_COMMON = sizeof common / sizeof *common, N_LOCAL = 1, MAX_NAMES = 128 };

const struct argument_table arguments_none = {.rows = NULL};
const struct argument_table arguments_local = {.rows = NULL, .local = true};

const char *arguments_nearest(const char *word, const void *names, int n, unsigned long stride) {
    const char *best = NULL;
    int nearest = 4; /* farther ones are no help */
    for (int i = 0; i < n; i++) {
        const char *name = *(const char *const *)((const char *)names + (unsigned long)i * stride);
        int distance = str_distance(word, name);
        if (distance < nearest && distance < (int)strlen(name)) {
            nearest = distance;
            best = name;
        }
    }
    return best;
}

static bool is(const struct argument *row, const char *word, size_t len) {
    return (strlen(row->name) == len && !strncmp(row->name, word, len)) ||
           (row->alias && strlen(row->alias) == len && !strncmp(row->alias, word, len));
}

static const struct argument *find(const struct argument *rows, int n, const char *word, size_t len) {
    for (int i = 0; i < n; i++)
        if (is(&rows[i], word, len))
            return &rows[i];
    return NULL;
}

static bool writes_files(const struct argument_table *table) {
    for (int i = 0; table && i < table->n; i++)
        if (table->rows[i].kind == ARGUMENT_OUTPUT)
            return true;
    return false;
}

void arguments_each(const struct argument_table *table, arguments_visit_fn *visit, void *ctx) {
    for (int i = 0; table && i < table->n; i++)
        visit(ctx, &table->rows[i]);
    if (writes_files(table))
        visit(ctx, &force);
    for (int i = 0; table && i < (table->local ? N_LOCAL : N_COMMON); i++)
        if (!find(table->rows, table->n, common[i].name, strlen(common[i].name)))
            visit(ctx, &common[i]);
}

bool arguments_takes_value(const char *word) {
    const struct argument *row = find(common, N_COMMON, word, strlen(word));
    return row && row->kind != ARGUMENT_FLAG;
}

void arguments_tell_common(const char *word) {
    size_t len = strcspn(word, "=");
    if (find(common, N_COMMON, word, len)) {
        fputs("brrctl: no command was given; `brrctl help` lists the commands\n", stderr);
        return;
    }
    const char *nearest = arguments_nearest(word, &common[0].name, N_COMMON, sizeof *common);
    fprintf(stderr, "brrctl: there is no option '%s'; ", word);
    fprintf(stderr, nearest ? "did you mean %s?\n" : "`brrctl help` lists the commands%s\n", nearest ? nearest : "");
}

/* The names of a table, for "did you mean". */
struct names {
    const char *items[MAX_NAMES];
    int n;
};

static void add_name(void *ctx, const struct argument *option) {
    struct names *names = ctx;
    if (names->n < MAX_NAMES)
        names->items[names->n++] = option->name;
}

static bool unknown(const char *command, const char *word, const struct argument_table *table) {
    struct names names = {.n = 0};
    arguments_each(table, add_name, &names);
    bool letter = word[1] != '-'; /* -m: as near to one option as to another */
    const char *nearest = letter ? NULL : arguments_nearest(word, names.items, names.n, sizeof *names.items);
    fprintf(stderr, "brrctl: %s has no option '%s'%s", command, word, letter ? " (options begin with --)" : "");
    fprintf(stderr, nearest ? "; did you mean %s?\n" : "; `brrctl %s --help` lists them\n", nearest ? nearest : command);
    return false;
}

static bool store_number(const struct argument *row, const char *value, void *field) {
    int64_t i = 0;
    double f = 0;
    bool whole = row->kind == ARGUMENT_INTEGER, ok = whole ? str_to_i64(value, &i) : str_to_f64(value, &f);
    if (whole)
        f = (double)i;
    if (!ok || f < row->min || f > row->max) {
        fprintf(stderr,
                whole ? "brrctl: %s is '%s'; expected a whole number from %.0f to %.0f\n"
                      : "brrctl: %s is '%s'; expected a number from %g to %g\n",
                row->name, value, row->min, row->max);
        return false;
    }
    if (whole)
        *(int64_t *)field = i;
    else
        *(double *)field = f;
    return true;
}

/* True if "read|stream" holds the value. */
static bool offered(const char *choices, const char *value) {
    size_t len = strlen(value);
    for (const char *at = choices; len && (at = strstr(at, value)); at += len)
        if ((at == choices || at[-1] == '|') && (at[len] == '|' || !at[len]))
            return true;
    return false;
}

static bool append(const struct argument *row, const char *value, struct argument_list *list) {
    if (row->kind == ARGUMENT_ASSIGNMENT && (!strchr(value, '=') || *value == '=')) {
        fprintf(stderr, "brrctl: %s is '%s'; expected KEY=VALUE\n", row->name, value);
        return false;
    }
    if (list->n == ARGUMENTS_MAX_LIST) {
        fprintf(stderr, "brrctl: %d is the maximum number of %s options\n", ARGUMENTS_MAX_LIST, row->name);
        return false;
    }
    list->items[list->n++] = value;
    return true;
}

static bool store(const struct argument *row, const char *value, void *field) {
    switch (row->kind) {
    case ARGUMENT_FLAG:
        *(bool *)field = true;
        return true;
    case ARGUMENT_CHOICE:
        if (!offered(row->value, value)) {
            fprintf(stderr, "brrctl: %s is '%s'; expected %s\n", row->name, value, row->value);
            return false;
        }
        *(const char **)field = value;
        return true;
    case ARGUMENT_TEXT:
    case ARGUMENT_OUTPUT:
        *(const char **)field = value;
        return true;
    case ARGUMENT_ASSIGNMENT:
    case ARGUMENT_LIST:
        return append(row, value, field);
    case ARGUMENT_NUMBER:
    case ARGUMENT_INTEGER:
        break;
    }
    return store_number(row, value, field);
}

/* The options with one value that were given. */
struct given {
    const struct argument *rows[MAX_NAMES];
    int n;
};

/* False, after printing why, for an option with one value that was given before: which of the two is meant? */
static bool is_first(const struct argument *row, struct given *given) {
    if (row->kind == ARGUMENT_FLAG || row->kind == ARGUMENT_LIST || row->kind == ARGUMENT_ASSIGNMENT)
        return true;
    for (int i = 0; i < given->n; i++)
        if (given->rows[i] == row) {
            fprintf(stderr, "brrctl: %s is given twice; expected it once\n", row->name);
            return false;
        }
    if (given->n < MAX_NAMES)
        given->rows[given->n++] = row;
    return true;
}

/* A command line that is being read. */
struct reading {
    int argc;
    char **argv;
    const struct argument_table *table;
    struct given given;
};

/* One word that begins with "--": also "--name=value". *i moves past a value of its own. */
static bool take(struct reading *r, int *i, struct arguments *a) {
    const struct argument_table *table = r->table;
    char **argv = r->argv;
    const char *word = argv[*i], *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    const struct argument *row = table ? find(table->rows, table->n, word, len) : NULL;
    char *base = row ? a->own : (char *)a;
    if (!row && table)
        row = find(common, N_COMMON, word, len);
    if (!row && writes_files(table))
        row = find(&force, 1, word, len);
    if (!row)
        return unknown(argv[1], word, table);
    if (row->kind == ARGUMENT_FLAG && equals) {
        fprintf(stderr, "brrctl: %s takes no value\n", row->name);
        return false;
    }
    if (row->kind == ARGUMENT_FLAG)
        return store(row, NULL, base + row->offset);
    if (!equals && *i + 1 == r->argc) {
        fprintf(stderr, "brrctl: %s needs a value: %s\n", row->name, row->value);
        return false;
    }
    return is_first(row, &r->given) && store(row, equals ? equals + 1 : argv[++*i], base + row->offset);
}

/* Numbers that are not given. */
static void set_defaults(const struct argument_table *table, char *own) {
    for (int i = 0; table && i < table->n; i++)
        if (table->rows[i].kind == ARGUMENT_NUMBER)
            *(double *)(void *)(own + table->rows[i].offset) = NAN;
        else if (table->rows[i].kind == ARGUMENT_INTEGER)
            *(int64_t *)(void *)(own + table->rows[i].offset) = -1;
}

bool arguments_parse(int argc, char **argv, const struct argument_table *table, struct arguments *ret) {
    struct reading reading = {.argc = argc, .argv = argv, .table = table};
    bool plain = false; /* after "--" everything is a word */
    *ret = (struct arguments){.args = needed(calloc((size_t)argc + 1, sizeof *ret->args)),
                              .own = needed(calloc(1, (table ? table->size : 0) + 1))};
    set_defaults(table, ret->own);
    for (int i = 2; i < argc; i++) {
        if (!plain && !strcmp(argv[i], "--"))
            plain = true;
        else if (plain || argv[i][0] != '-' || !argv[i][1])
            ret->args[ret->n_args++] = argv[i];
        else if (!take(&reading, &i, ret))
            return false;
    }
    return true;
}

static const char *output_at(const struct arguments *a, const struct argument *row) {
    if (row->kind != ARGUMENT_OUTPUT)
        return NULL;
    return *(const char **)(void *)((char *)a->own + row->offset);
}

int arguments_check_outputs(const struct arguments *a, const struct argument_table *table, struct arguments_outputs *ret,
                            struct err *err) {
    ret->n = 0;
    for (int i = 0; table && i < table->n && ret->n < ARGUMENTS_MAX_LIST; i++) {
        const char *path = output_at(a, &table->rows[i]);
        int rc = path ? outputs_check(path, a->force, err) : 0;
        if (rc)
            return rc;
        if (!path || fsio_is_dir(path) || table->fetches)
            continue;
        ret->stamps[ret->n] = fsio_stamp(path);
        ret->paths[ret->n++] = path;
    }
    return 0;
}

int arguments_list_outputs(const struct arguments_outputs *outputs, struct err *err) {
    for (int i = 0; i < outputs->n; i++) {
        int rc = fsio_stamp(outputs->paths[i]) != outputs->stamps[i] ? outputs_add(outputs->paths[i], err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

void arguments_done(struct arguments *a) { FREE_MEMBERS(*a, args, own); }
