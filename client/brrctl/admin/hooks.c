/* hooks test: a test alarm for the hooks of the daemon's configuration. */

#include "base/base.h"
#include "brr/v1/hooks.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"

enum { TEST_MS = 15 * 60 * 1000 };

static void print_result(const struct arguments *o, const Brr__V1__HookResult *r) {
    if (o->json) {
        output_message(&r->base, "hook=name error? seconds");
    } else {
        printf("%-16s %s%s (%.1f s)\n", r->name, *r->error ? "FAILED: " : "delivered", r->error, r->seconds);
    }
}

static int cmd_hooks(const struct arguments *o) {
    static const struct brrctl_method method = {"/brr.v1.Hooks/Test", &brr__v1__test_hooks_response__descriptor, TEST_MS};
    Brr__V1__TestHooksRequest in = BRR__V1__TEST_HOOKS_REQUEST__INIT;
    int code = 0;
    if (strcmp(o->args[0], "test") != 0) {
        fprintf(stderr, "brrctl: expected `brrctl hooks test [NAME]`\n");
        return EXIT_USAGE;
    }
    if (o->n_args > 1)
        in.name = (char *)(uintptr_t)o->args[1];
    OWNED_ANSWER Brr__V1__TestHooksResponse *out = brrctl_call(o, &method, &in.base, &code);
    if (!out)
        return code;
    for (size_t i = 0; i < out->n_results; i++) {
        print_result(o, out->results[i]);
        code = *out->results[i]->error ? EXIT_FAILED : code;
    }
    return code;
}

const struct command command_hooks = {
    .name = "hooks",
    .words = "test [NAME]",
    .options = &arguments_none,
    .summary = "send a test alarm to the hooks of daemon.yaml, or to one of them",
    .run = cmd_hooks,
    .details = "One attempt each; exit 1 if one failed. The text says `test`: true. Needs the role admin.\n"
               "example: brrctl hooks test pager",
};
