/* hooks test: a test alarm for the hooks of the daemon's configuration. */

#include "brr/v1/hooks.pb-c.h"
#include "client/brrctl/brrctl.h"

static void print_result(const void *result) {
    const Brr__V1__HookResult *r = result;
    printf("%-16s %s%s (%.1f s)\n", r->name, *r->error ? "FAILED: " : "delivered", r->error, r->seconds);
}

static int cmd_hooks(const struct arguments *o) {
    static const struct brrctl_view view = {.json = "hook=name error? seconds", .print = print_result};
    Brr__V1__TestHooksRequest in = BRR__V1__TEST_HOOKS_REQUEST__INIT;
    int code = 0;
    if (strcmp(o->args[0], "test") != 0) {
        fprintf(stderr, "brrctl: expected `brrctl hooks test [NAME]`\n");
        return EXIT_USAGE;
    }
    if (o->n_args > 1)
        in.name = (char *)(uintptr_t)o->args[1];
    OWNED_ANSWER Brr__V1__TestHooksResponse *out = brrctl_call(o, "/brr.v1.Hooks/Test", &in.base, &code);
    if (!out)
        return code;
    brrctl_show_items(o, &view, (void *const *)out->results, out->n_results);
    for (size_t i = 0; i < out->n_results; i++)
        code = *out->results[i]->error ? EXIT_FAILED : code;
    return code;
}

BRRCTL_COMMAND(hooks, "test [NAME]", &arguments_none, cmd_hooks, "send a test alarm to the hooks of daemon.yaml, or to one of them",
               "One attempt each; exit 1 if one failed. The text says `test`: true. Needs the role admin.\n"
               "example: brrctl hooks test pager");
