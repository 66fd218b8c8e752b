/* doctor and drain. */

#include "base/base.h"
#include "brr/v1/admin.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"

enum { DOCTOR_MS = 120 * 1000 };

static void print_check(const Brr__V1__DoctorCheck *c, bool json) {
    if (json) {
        output_message(&c->base, "check=name pass detail fix?");
        return;
    }
    printf("%s  %-24s %s\n", c->pass ? "PASS" : "FAIL", c->name, c->detail);
    if (!c->pass && *c->fix)
        printf("      %-24s %s\n", "", c->fix);
}

static int cmd_doctor(const struct arguments *o) {
    static const struct brrctl_method method = {"/brr.v1.Admin/Doctor", &brr__v1__doctor_response__descriptor, DOCTOR_MS};
    const Brr__V1__DoctorRequest in = BRR__V1__DOCTOR_REQUEST__INIT;
    int code = 0;
    OWNED_ANSWER Brr__V1__DoctorResponse *d = brrctl_call(o, &method, &in.base, &code);
    if (!d)
        return code;
    for (size_t i = 0; i < d->n_checks; i++) {
        print_check(d->checks[i], o->json);
        code = d->checks[i]->pass ? code : EXIT_FAILED;
    }
    return code;
}

struct drain_options {
    bool yes;
};
#define AT(field) offsetof(struct drain_options, field)
static const struct argument drain_rows[] = {
    FLAG("--yes", yes, "do not ask, as where there is no terminal"),
};
static const struct argument_table drain_arguments = ARGUMENT_TABLE(drain_rows, struct drain_options);

/* A person at a terminal is asked; a script is not. */
static bool confirmed(const struct arguments *o) {
    const struct drain_options *own = o->own;
    char answer[16];
    if (own->yes || o->json || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return true;
    fputs("This ends the daemon: jobs are checkpointed and streams are cut. Drain it? [y/N] ", stderr);
    return fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y');
}

static int cmd_drain(const struct arguments *o) {
    static const struct brrctl_method method = {"/brr.v1.Admin/Drain", &brr__v1__drain_response__descriptor, 0};
    const Brr__V1__DrainRequest in = BRR__V1__DRAIN_REQUEST__INIT;
    int code = 0;
    if (!confirmed(o)) {
        fputs("brrctl: nothing was changed; `brrctl drain --yes` does not ask\n", stderr);
        return EXIT_FAILED;
    }
    OWNED_ANSWER Brr__V1__DrainResponse *d = brrctl_call(o, &method, &in.base, &code);
    if (!d)
        return code;
    if (o->json)
        output_text("message", d->message);
    else
        puts(d->message);
    return 0;
}

const struct command command_doctor = {
    .name = "doctor",
    .words = "",
    .options = &arguments_none,
    .summary = "check the device, kernels, folders and models; each line PASS or FAIL",
    .run = cmd_doctor,
    .details = "Exit 1 if a line says FAIL.\nexample: brrctl doctor",
};

const struct command command_drain = {
    .name = "drain",
    .words = "",
    .options = &drain_arguments,
    .summary = "refuse new work, checkpoint jobs, then end the daemon",
    .run = cmd_drain,
    .details = "example: brrctl drain",
};
