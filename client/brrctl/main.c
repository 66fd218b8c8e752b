/* brrctl: the command line of brrd. */
#include <signal.h>

#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "revision.h"

#define COMMAND(name) extern const struct command command_##name;
#include "client/brrctl/commands.def"
#undef COMMAND

static const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "client/brrctl/commands.def"
#undef COMMAND
};
enum { N_COMMANDS = sizeof commands / sizeof *commands, COMMAND_WIDTH = 38, OPTION_WIDTH = 28 };

const struct command *const *brrctl_commands(int *ret_n) {
    *ret_n = N_COMMANDS;
    return commands;
}

/* Characters of a text, each of which takes a column. */
static int columns_of(const char *text) {
    int n = 0;
    for (int step; (step = str_utf8_step(text)); text += step)
        n++;
    return n;
}

/* A left column that is too wide has a line of its own. */
static void print_columns(FILE *out, const char *left, int width, const char *right) {
    int used = columns_of(left);
    if (used > width)
        fprintf(out, "%s\n%*s %s\n", left, width, "", right);
    else
        fprintf(out, "%s%*s %s\n", left, width - used, "", right);
}

static void print_command(FILE *out, const struct command *c) {
    char left[128];
    snprintf(left, sizeof left, "  %-11s %s", c->name, c->words);
    print_columns(out, left, COMMAND_WIDTH, c->summary);
}

static void print_usage(FILE *out) {
    fputs("usage: brrctl COMMAND [ARGUMENTS] [--json] [--endpoint E] [--tls-ca F] [--token-file F]\n", out);
#define GROUP(text)   fputs("\n" text ":\n", out);
#define COMMAND(name) print_command(out, &command_##name);
#include "client/brrctl/commands.def"
#undef COMMAND
    fputs("\n`brrctl COMMAND --help` explains a command. The daemon is found through BRR_ENDPOINT (unix:/path or host:port).\n"
          "ps and list are jobs, train is submit; --version prints the version of this program.\n"
          "Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 no daemon.\n"
          "example: brrctl submit configs/tiny.yaml --set data.source=file:///data/eeg --watch\n",
          out);
}

static void print_option(void *ctx, const struct argument *o) {
    char left[128];
    snprintf(left, sizeof left, "  %s%s%s%s%s", o->name, o->alias ? ", " : "", o->alias ? o->alias : "", *o->value ? " " : "",
             o->value);
    print_columns(ctx, left, OPTION_WIDTH, o->help);
}

/* Prints the name at this column, on the next line if this one is full. Returns the column behind it. */
static int print_option_name(const char *name, int at) {
    enum { MARGIN = 17, WIDTH = 120 };
    if (at + (int)strlen(name) >= WIDTH)
        at = printf("\n%*s", MARGIN, "") - 1;
    return at + printf(" %s", name);
}

/* The own options of each verb; `COMMAND VERB --help` explains them. */
static void print_verb_options(const struct command *c) {
    if (!c->verbs || c->verbs->options == c->options)
        return;
    printf("Options of %s (`brrctl %s VERB --help` explains them):\n", c->name, c->name);
    for (const struct command_verb *v = c->verbs; v->name; v++) {
        int at = printf("  %-14s ", v->name);
        for (int i = 0; i < v->options->n; i++)
            at = print_option_name(v->options->rows[i].name, at);
        puts(v->options->n ? "" : " none");
    }
    putchar('\n');
}

static int print_help(const struct command *c) {
    printf("usage: brrctl %s%s%s%s\n%s\n\n", c->name, *c->words ? " " : "", c->words, c->options ? " [OPTIONS]" : "", c->summary);
    arguments_each(c->options, print_option, stdout);
    if (c->options)
        putchar('\n');
    print_verb_options(c);
    puts(c->details);
    return 0;
}

/* The lines of the command's details that begin with two spaces and the verb, and those that go on deeper. */
static void print_verb_lines(const char *details, const char *verb) {
    size_t len = strlen(verb);
    bool ours = false;
    for (const char *line = details; *line;) {
        size_t n = strcspn(line, "\n");
        ours = strncmp(line, "   ", 3) ? !strncmp(line, "  ", 2) && !strncmp(line + 2, verb, len) && line[2 + len] == ' ' : ours;
        if (ours)
            printf("%.*s\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static int print_verb_help(const struct command *c, const struct command_verb *v) {
    printf("usage: brrctl %s %s%s%s [OPTIONS]\n", c->name, v->name, *v->words ? " " : "", v->words);
    print_verb_lines(c->details, v->name);
    putchar('\n');
    arguments_each(v->options, print_option, stdout);
    return 0;
}

static const struct command_verb *find_verb(const struct command *c, const char *word) {
    for (const struct command_verb *v = c->verbs; v && v->name; v++)
        if (!strcmp(v->name, word))
            return v;
    return NULL;
}

static int help_of(const struct command *c, int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        const struct command_verb *v = find_verb(c, argv[i]);
        if (v)
            return print_verb_help(c, v);
    }
    return print_help(c);
}

static bool is_version(const char *word) { return !strcmp(word, "--version"); }
static bool is_help(const char *word) { return !strcmp(word, "--help") || !strcmp(word, "-h"); }

static bool asks_help(int argc, char **argv) {
    for (int i = 2; i < argc && strcmp(argv[i], "--"); i++)
        if (is_help(argv[i]))
            return true;
    return false;
}

/* Words that other programs use for a command. */
static const struct { const char *word, *command; } synonyms[] = {{"ps", "jobs"}, {"list", "jobs"}, {"train", "submit"}};

static const struct command *find_command(const char *name) {
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (!strcmp(name, synonyms[i].word))
            name = synonyms[i].command;
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, commands[i]->name))
            return commands[i];
    return NULL;
}

struct option_search {
    const char *name;
    bool there;
};

static void ask_name(void *ctx, const struct argument *option) {
    struct option_search *search = ctx;
    search->there |= !strcmp(option->name, search->name);
}

static void ask_value(void *ctx, const struct argument *option) {
    struct option_search *search = ctx;
    search->there |= !strcmp(option->name, search->name) && option->kind != ARGUMENT_FLAG;
}

/* Names the command that a word such as --validate may have meant, where the command has no such option. */
static void tell_command(const struct command *c, int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        const struct command *meant = str_starts(argv[i], "--") ? find_command(argv[i] + 2) : NULL;
        struct option_search search = {argv[i], !meant};
        arguments_each(c->options, ask_name, &search);
        if (!search.there)
            fprintf(stderr, "brrctl: `brrctl %s %s` is a command of its own: %s\n", meant->name, meant->words, meant->summary);
    }
}

static int wrong_verb_words(const struct command *c, const struct command_verb *v, const struct arguments *o) {
    if (o->n_args < v->n_args)
        fprintf(stderr, "brrctl: %s %s needs %s; see `brrctl %s %s --help`\n", c->name, v->name, v->words, c->name, v->name);
    else
        fprintf(stderr, "brrctl: unexpected argument '%s'; expected brrctl %s %s%s%s\n", o->args[v->n_args], c->name, v->name,
                *v->words ? " " : "", v->words);
    return EXIT_USAGE;
}

static int unknown_verb(const struct command *c, const char *word) {
    int n = 0;
    while (c->verbs[n].name)
        n++;
    const char *nearest = arguments_nearest(word, &c->verbs[0].name, n, sizeof *c->verbs);
    fprintf(stderr, "brrctl: unknown %s command '%s'; ", c->name, word);
    if (nearest)
        fprintf(stderr, "did you mean %s?\n", nearest);
    else
        fprintf(stderr, "`brrctl %s --help` lists the commands\n", c->name);
    return EXIT_USAGE;
}

/* The first word after the command that is no option and no value of one; NULL: none. Where the verb may be left out
 * (`first`), options are those of the first one too. */
static const char *first_word(const struct command *c, bool first, int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        struct option_search search = {argv[i], arguments_takes_value(argv[i])};
        if (argv[i][0] != '-')
            return argv[i];
        if (first)
            arguments_each(c->verbs->options, ask_value, &search);
        i += search.there;
    }
    return NULL;
}

/* Runs a command whose words are right. Files of others are not replaced; its own are listed, also those of a command that failed
 * later. */
static int run_listed(int (*run)(const struct arguments *o), const struct argument_table *table, const struct arguments *o) {
    struct arguments_outputs outputs;
    struct err err = {0};
    if (arguments_check_outputs(o, table, &outputs, &err))
        return brrctl_fail(&err);
    int code = run(o);
    return arguments_list_outputs(&outputs, &err) && !code ? brrctl_fail(&err) : code;
}

static int run_verb(const struct command *c, int argc, char **argv) {
    const char *word = first_word(c, *c->words == '[', argc, argv);
    const bool first = !word && *c->words == '['; /* "[list|observe] [ID]": the verb may be left out */
    const struct command_verb *v = word ? find_verb(c, word) : first ? c->verbs : NULL;
    struct arguments o;
    char name[64];
    if (!word && !first)
        fprintf(stderr, "brrctl: %s needs %s; see `brrctl %s --help`\n", c->name, c->words, c->name);
    if (!v)
        return word ? unknown_verb(c, word) : EXIT_USAGE;
    snprintf(name, sizeof name, "%s %s", c->name, v->name);
    argv[1] = name; /* for errors of its options */
    int code = EXIT_USAGE;
    if (arguments_parse(argc, argv, v->options, &o))
        code = o.n_args + first == v->n_args ? run_listed(v->run, v->options, &o) : wrong_verb_words(c, v, &o);
    arguments_done(&o);
    return code;
}

/* The plain words that a command takes, which its row counts or its `words` show: "FILE [NAME]" is one or two. most -1: any number.
 */
static void count_words(const struct command *c, int *ret_least, int *ret_most) {
    *ret_least = c->min_args;
    *ret_most = c->max_args;
    if (c->max_args)
        return;
    int open = 0;
    for (const char *at = c->words; *at; at++) {
        open += (*at == '[') - (*at == ']');
        if (at != c->words && at[-1] != ' ')
            continue;
        *ret_least += !open;
        ++*ret_most;
    }
    if (strstr(c->words, "...") || strstr(c->words, "…"))
        *ret_most = -1;
}

static int run(const struct command *c, int argc, char **argv) {
    struct arguments o;
    int code = EXIT_USAGE, least, most;
    if (c->verbs)
        return run_verb(c, argc, argv);
    count_words(c, &least, &most);
    if (!arguments_parse(argc, argv, c->options, &o)) {
        tell_command(c, argc, argv);
        arguments_done(&o);
        return code;
    }
    if (o.n_args < least)
        fprintf(stderr, "brrctl: %s needs %s; see `brrctl %s --help`\n", c->name, c->words, c->name);
    else if (most >= 0 && o.n_args > most)
        fprintf(stderr, "brrctl: unexpected argument '%s'; expected brrctl %s%s%s\n", o.args[most], c->name, *c->words ? " " : "",
                c->words);
    else
        code = run_listed(c->run, c->options, &o);
    arguments_done(&o);
    return code;
}

static int unknown_command(const char *word) {
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i]->name;
    const char *nearest = arguments_nearest(word, names, N_COMMANDS, sizeof *names);
    fprintf(stderr, "brrctl: there is no command '%s'", word);
    fprintf(stderr, nearest ? "; did you mean %s?\n" : "; `brrctl help` lists them%s\n", nearest ? nearest : "");
    return EXIT_USAGE;
}

/* This program's own version; `version` asks the daemon. */
static int print_version(int argc, char **argv) {
    bool json = false;
    for (int i = 1; i < argc; i++)
        json = json || !strcmp(argv[i], "--json");
    printf(json ? "{\"version\":\"%s\",\"revision\":\"%s\"}\n" : "brrctl %s (%s)\n", BRR_VERSION, revision_name);
    return 0;
}

/* Printing is part of the work: a failed write to stdout is an error of the command. */
static int done(int code) { return output_arrived() || code ? code : EXIT_FAILED; }

/* Options before the command are moved behind it: "brrctl --json jobs" is "brrctl jobs --json". */
static bool command_first(int argc, char **argv) {
    int at = 1;
    while (at < argc && argv[at][0] == '-' && !is_help(argv[at]) && !is_version(argv[at]))
        at += arguments_takes_value(argv[at]) ? 2 : 1;
    if (at >= argc || at == 1)
        return at < argc;
    char *command = argv[at];
    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof *argv);
    argv[1] = command;
    return true;
}

int main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN);            /* a write beyond the limit of file size is an error */
    setenv("GRPC_VERBOSITY", "NONE", 0); /* errors are said once, by the command */
    const char *first = argc > 1 ? argv[1] : NULL;
    if (!command_first(argc, argv)) {
        if (!first)
            print_usage(stderr);
        else
            arguments_tell_common(first);
        return EXIT_USAGE;
    }
    bool help = !strcmp(argv[1], "help");
    if (is_help(argv[1]) || (help && argc == 2)) {
        print_usage(stdout);
        return done(0);
    }
    if (is_version(argv[1]))
        return done(print_version(argc, argv));
    const char *name = help ? argv[2] : argv[1];
    const struct command *c = find_command(name);
    if (!c)
        return unknown_command(name);
    return done(help || asks_help(argc, argv) ? help_of(c, argc, argv) : run(c, argc, argv));
}
