/* doctor and drain. */

#include "brr/v1/admin.pb-c.h"
#include "client/brrctl/brrctl.h"

static void print_check(const void *check) {
    const Brr__V1__DoctorCheck *c = check;
    printf("%s  %-24s %s\n", c->pass ? "PASS" : "FAIL", c->name, c->detail);
    if (!c->pass && *c->fix)
        printf("      %-24s %s\n", "", c->fix);
}

static int cmd_doctor(const struct arguments *o) {
    static const struct brrctl_view view = {.json = "check=name pass detail fix?", .print = print_check};
    const Brr__V1__DoctorRequest in = BRR__V1__DOCTOR_REQUEST__INIT;
    int code = 0;
    OWNED_ANSWER Brr__V1__DoctorResponse *d = brrctl_call(o, "/brr.v1.Admin/Doctor", &in.base, &code);
    if (!d)
        return code;
    brrctl_show_items(o, &view, (void *const *)d->checks, d->n_checks);
    for (size_t i = 0; i < d->n_checks; i++)
        code = d->checks[i]->pass ? code : EXIT_FAILED;
    return code;
}

struct drain_options {
    bool yes;
};
#define OPTIONS struct drain_options
static const struct argument drain_rows[] = {
    FLAG("--yes", yes, "do not ask, as where there is no terminal"),
};

static void print_drain(const void *answer) { puts(((const Brr__V1__DrainResponse *)answer)->message); }

static int cmd_drain(const struct arguments *o) {
    static const struct brrctl_view view = {.json = "message", .print = print_drain};
    const Brr__V1__DrainRequest in = BRR__V1__DRAIN_REQUEST__INIT;
    if (!((const struct drain_options *)o->own)->yes && !o->json && /* a script is not asked */
        !brrctl_confirms("This ends the daemon: jobs are checkpointed and streams are cut. Drain it?")) {
        fputs("brrctl: nothing was changed; `brrctl drain --yes` does not ask\n", stderr);
        return EXIT_FAILED;
    }
    return brrctl_show(o, "/brr.v1.Admin/Drain", &in.base, &view);
}

BRRCTL_COMMAND(doctor, "", &arguments_none, cmd_doctor, "check the device, kernels, folders and models; each line PASS or FAIL",
               "Exit 1 if a line says FAIL.\nexample: brrctl doctor");

BRRCTL_COMMAND(drain, "", ARGUMENTS(drain_rows), cmd_drain, "refuse new work, checkpoint jobs, then end the daemon",
               "example: brrctl drain");
