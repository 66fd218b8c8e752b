/* completion bash|zsh|fish: shell completions, written from the tables of commands and options. */

#include "client/brrctl/brrctl.h"
#include "work/jobfile.h"

#define NETWORKS "random ring layered"              /* that `burst generate` draws */
#define MODELS   "ward demo line_length band_power" /* built-in models; the daemon lists the models that it serves */

/* Commands whose words are ids of jobs. */
static const char *const of_jobs[] = {"job", "watch", "logs", "cancel", "delete", "resume", "compare"};
enum { OF_JOBS = sizeof of_jobs / sizeof *of_jobs };

static void print_of_jobs(const char *between) {
    for (size_t i = 0; i < OF_JOBS; i++)
        printf("%s%s", i ? between : "", of_jobs[i]);
}

static void print_name(void *ctx, const struct argument *o) {
    fprintf(ctx, " %s", o->name);
    if (o->alias)
        fprintf(ctx, " %s", o->alias);
}

/* "read|stream" as "read stream". */
static void print_choices(const char *value) {
    for (; *value; value++)
        putchar(*value == '|' ? ' ' : *value);
}

/* A case for an option of this command with a fixed choice of values. */
static void print_bash_values(void *ctx, const struct argument *o) {
    if (o->kind != ARGUMENT_CHOICE)
        return;
    printf("    '%s %s') values=\"", (const char *)ctx, o->name);
    print_choices(o->value);
    puts("\" ;;");
}

/* The options of a command, or of all of its verbs. */
static void each_option(const struct command *c, arguments_visit_fn *visit, void *ctx) {
    arguments_each(c->options, visit, ctx);
    for (const struct command_verb *v = c->verbs; v && v->name; v++)
        for (int i = 0; v->options != c->options && i < v->options->n; i++)
            visit(ctx, &v->options->rows[i]);
}

/* The verbs that a command's first word is one of ("ls|get|put [FILE] URL"), with spaces between them. */
static void print_verbs(const struct command *c) {
    const char *words = c->words + (*c->words == '['); /* "[list|observe] [ID]": the verb may be left out */
    size_t len = strcspn(words, " ]");
    if (!strcmp(c->words, "[KIND]"))
        for (int k = 0; k < task_kind_count; k++)
            printf("%s%s", k ? " " : "", task_kinds[k]->name);
    if (!memchr(words, '|', len) || strspn(words, "abcdefghijklmnopqrstuvwxyz|") < len)
        return; /* FILE|-, job:ID|DIR: no words to choose from */
    for (size_t i = 0; i < len; i++)
        putchar(words[i] == '|' ? ' ' : words[i]);
}

/* True if a table before the t-th has a key of this name; kinds may share names. */
static bool named_before(const struct option_table *const *tables, int t, const char *name) {
    for (int i = 0; i < t; i++)
        for (size_t k = 0; k < tables[i]->count; k++)
            if (!strcmp(tables[i]->rows[k].name, name))
                return true;
    return false;
}

/* "KEY= KEY= …" of all kinds of job, each once. */
static void print_keys(void) {
    const struct option_table *tables[BRRCTL_MAX_TABLES];
    int n = brrctl_key_tables(NULL, tables);
    for (int t = 0; t < n; t++)
        for (size_t i = 0; i < tables[t]->count; i++)
            if (tables[t]->rows[i].type != OPTION_NOTICE && !named_before(tables, t, tables[t]->rows[i].name))
                printf("%s%s=", t || i ? " " : "", tables[t]->rows[i].name);
}

static void print_bash(void) {
    int n;
    const struct command *const *c = brrctl_commands(&n);
    puts("# bash completion of brrctl: brrctl completion bash > /etc/bash_completion.d/brrctl\n"
         "_brrctl_known() { # jobs or models that the daemon knows: the first text of each line\n"
         "    brrctl \"$1\" --json 2>/dev/null | sed -n 's/^{\"[a-z_]*\":\"\\([^\"]*\\)\".*/\\1/p'\n"
         "}\n"
         "_brrctl() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options= words= values=");
    fputs("    local commands=\"", stdout);
    for (int i = 0; i < n; i++)
        printf("%s ", c[i]->name);
    fputs("help\"\n    local keys=\"", stdout);
    print_keys();
    puts("\"\n"
         "    case ${COMP_WORDS[1]} in\n"
         "    help) words=$commands ;;");
    for (int i = 0; i < n; i++) {
        printf("    %s) words=\"", c[i]->name);
        print_verbs(c[i]);
        fputs("\" options=\"--help", stdout);
        each_option(c[i], print_name, stdout);
        puts("\" ;;");
    }
    puts("    esac\n"
         "    case \"${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD-1]}\" in");
    for (int i = 0; i < n; i++)
        each_option(c[i], print_bash_values, (void *)(uintptr_t)c[i]->name);
    puts("    esac\n"
         "    if [ \"$word\" = : ]; then before=: word=; fi # job:ID is three words to bash\n"
         "    if [ \"$before\" = : ] && [[ \" ${COMP_WORDS[*]} \" == *\" job : \"* ]]; then\n"
         "        values=$(_brrctl_known jobs)\n"
         "    elif [ \"$before\" = --model ]; then\n"
         "        words=\"" MODELS " $(_brrctl_known models)\"\n"
         "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\") $(compgen -f -- \"$word\"))\n"
         "        return\n"
         "    elif [ \"$COMP_CWORD\" -ge 2 ] && [ \"${word#-}\" = \"$word\" ] && [ -z \"$values\" ]; then\n"
         "        case ${COMP_WORDS[1]} in");
    fputs("        ", stdout);
    print_of_jobs("|");
    puts(") [ \"${before#-}\" = \"$before\" ] && values=$(_brrctl_known jobs) ;;\n"
         "        load | unload | models) [ \"$COMP_CWORD\" -eq 2 ] && values=$(_brrctl_known models) ;;\n"
         "        esac\n"
         "    fi\n"
         "    if [ \"$COMP_CWORD\" -eq 3 ] && [ \"${COMP_WORDS[*]:1:2}\" = \"burst generate\" ]; then\n"
         "        values=\"" NETWORKS "\"\n"
         "    fi\n"
         "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "        COMPREPLY=($(compgen -W \"$commands\" -- \"$word\"))\n"
         "    elif [ -n \"$values\" ]; then\n"
         "        COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
         "    elif [ \"${COMP_WORDS[COMP_CWORD-1]}\" = --set ]; then\n"
         "        COMPREPLY=($(compgen -W \"$keys\" -- \"$word\"))\n"
         "        compopt -o nospace 2>/dev/null\n"
         "    elif [ \"${word#-}\" != \"$word\" ]; then\n"
         "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
         "    elif [ \"$COMP_CWORD\" -eq 2 ] && [ -n \"$words\" ]; then\n"
         "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "    else\n"
         "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "    fi\n"
         "}\n"
         "complete -o filenames -F _brrctl brrctl");
}

static void print_zsh(void) {
    puts("#compdef brrctl\n# zsh completion of brrctl: brrctl completion zsh > \"${fpath[1]}/_brrctl\"\n"
         "autoload -U +X bashcompinit && bashcompinit");
    print_bash();
    puts("[ \"${funcstack[1]}\" != _brrctl ] || _bash_complete -o filenames -F _brrctl # the first time, read from fpath");
}

/* Text between single quotes. */
static void print_quoted(const char *text) {
    putchar('\'');
    for (; *text; text++)
        fputs(*text == '\'' ? "\\'" : (char[]){*text, '\0'}, stdout);
    putchar('\'');
}

static void print_fish_option(void *ctx, const struct argument *o) {
    printf("complete -c brrctl -n '__fish_seen_subcommand_from %s' -l %s", (const char *)ctx, o->name + 2);
    if (o->alias)
        printf(" -l %s", o->alias + 2);
    fputs(*o->value ? " -r" : "", stdout);
    if (o->kind == ARGUMENT_ASSIGNMENT) {
        fputs(" -f -a '", stdout);
        print_keys();
        putchar('\'');
    } else if (o->kind == ARGUMENT_CHOICE) {
        fputs(" -f -a '", stdout);
        print_choices(o->value);
        putchar('\'');
    } else if (!strcmp(o->name, "--model")) {
        fputs(" -a '" MODELS " (__brrctl_known models)'", stdout);
    }
    fputs(" -d ", stdout);
    print_quoted(o->help);
    putchar('\n');
}

static void print_fish(void) {
    int n;
    const struct command *const *c = brrctl_commands(&n);
    puts("# fish completion of brrctl: brrctl completion fish > ~/.config/fish/completions/brrctl.fish\n"
         "function __brrctl_known # jobs or models that the daemon knows\n"
         "    brrctl $argv[1] --json 2>/dev/null | string replace -rf '^{\"[a-z_]*\":\"([^\"]*)\".*' '$1'\n"
         "end");
    fputs("complete -c brrctl -n '__fish_seen_subcommand_from ", stdout);
    print_of_jobs(" ");
    puts("' -f -a '(__brrctl_known jobs)'");
    for (int i = 0; i < n; i++) {
        printf("complete -c brrctl -n __fish_use_subcommand -f -a %s -d ", c[i]->name);
        print_quoted(c[i]->summary);
        printf("\ncomplete -c brrctl -n 'test (count (commandline -opc)) -eq 2; and __fish_seen_subcommand_from %s' -a '",
               c[i]->name);
        print_verbs(c[i]);
        puts("'");
        each_option(c[i], print_fish_option, (void *)(uintptr_t)c[i]->name);
    }
    puts("complete -c brrctl -n 'test (count (commandline -opc)) -eq 3; and __fish_seen_subcommand_from generate' -f -a '" NETWORKS
         "'");
}

static int cmd_completion(const struct arguments *o) {
    static const struct {
        const char *shell;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(o->args[0], shells[i].shell)) {
            shells[i].print();
            return 0;
        }
    fprintf(stderr, "brrctl: there is no completion for '%s'; expected bash, zsh or fish\n", o->args[0]);
    return EXIT_USAGE;
}

BRRCTL_COMMAND(completion, "bash|zsh|fish", NULL, cmd_completion, "print shell completions",
               "example: source <(brrctl completion bash)");
