/* validate FILE: what a job would need and mean, before it runs. */

#include "base/counted.h"
#include "brr/v1/jobs.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "work/estimate.h"
#include "work/kind.h"

#define OPTIONS struct job_options
static const struct argument rows[] = {
    ASSIGNMENT("--set", set, "K=V", "override a key of the job file; may be repeated"),
    TEXT("--name", name, "NAME", "name of the job"),
};

static bool fits(const Brr__V1__ValidateResponse *v) {
    return v->memory_bytes <= v->memory_available_bytes || !v->memory_available_bytes;
}

/* Price of the whole job; 0 when its time or the price of an hour is not known. */
static double cost(const Brr__V1__ValidateResponse *v) { return v->seconds_total / 3600 * v->price_per_hour; }

const char *brrctl_cost(const Brr__V1__ValidateResponse *v, int jobs, char *buf, size_t size) {
    const struct estimate_cost c = {v->seconds_total, v->price_per_hour, v->budget, v->currency, v->steps, jobs};
    return estimate_cost_text(&c, buf, size);
}

static void print_json(const Brr__V1__ValidateResponse *v) {
    struct json_writer *w = output_begin();
    json_put_bool(w, "valid", true);
    json_put_bool(w, "fits", fits(v));
    output_fields(w, &v->base,
                  "kind device memory_bytes memory_available_bytes largest_micro_batch parameters steps seconds_per_step "
                  "seconds_total recordings windows_per_epoch facts{key value} notices price_per_hour currency budget");
    json_put_f64(w, "cost", cost(v) > 0 ? cost(v) : NAN);
    output_end(w);
}

static void print_text(const Brr__V1__ValidateResponse *v, const char *file) {
    const struct task_kind *kind = task_kind_find(v->kind);
    const char *step = kind && kind->step ? kind->step : "step";
    char need[32], have[32], total[32], money[200];
    printf("%s is a valid %s job%s\n", file, v->kind, fits(v) ? "" : ", but does not fit the device");
    printf("  %-18s %s: %s of %s\n", "memory", v->device, output_bytes((double)v->memory_bytes, need, sizeof need),
           output_bytes((double)v->memory_available_bytes, have, sizeof have));
    if (!fits(v) && v->largest_micro_batch > 0)
        printf("  %-18s does not fit; the largest training.micro_batch_size that fits is %lld\n", "",
               (long long)v->largest_micro_batch);
    else if (!fits(v))
        printf("  %-18s does not fit\n", "");
    if (v->parameters)
        printf("  %-18s %s\n", "parameters", counted(v->parameters, "").text);
    if (v->recordings && v->windows_per_epoch)
        printf("  %-18s %s, %s an epoch\n", "recordings", counted(v->recordings, "").text,
               counted(v->windows_per_epoch, "window").text);
    else if (v->recordings)
        printf("  %-18s %lld\n", "recordings", (long long)v->recordings);
    if (v->steps)
        printf("  %ss%-*s %s\n", step, (int)(17 - strlen(step)), "", counted(v->steps, "").text);
    if (v->seconds_per_step > 0)
        printf("  %-18s %.3g s a %s%s%s\n", "time", v->seconds_per_step, step, v->seconds_total > 0 ? ", about " : "",
               v->seconds_total > 0 ? output_duration(v->seconds_total, total, sizeof total) : "");
    if (*brrctl_cost(v, 1, money, sizeof money))
        printf("  %-18s %s, at %g an hour\n", "cost", money, v->price_per_hour);
    else if (v->budget > 0)
        printf("  %-18s not known, as the time is; limits.cost %g\n", "cost", v->budget);
    for (size_t i = 0; i < v->n_facts; i++)
        printf("  %-18s %s\n", v->facts[i]->key, v->facts[i]->value);
    for (size_t i = 0; i < v->n_notices; i++)
        printf("note: %s\n", v->notices[i]);
}

static int cmd_validate(const struct arguments *o) {
    Brr__V1__ValidateRequest in = BRR__V1__VALIDATE_REQUEST__INIT;
    struct brrctl_job_file file;
    struct err err;
    int code = 0;
    if (brrctl_job_file_open(&file, o, &err))
        return brrctl_fail(&err);
    in.file = &file.message;
    OWNED_ANSWER Brr__V1__ValidateResponse *v = brrctl_call(o, "/brr.v1.Jobs/Validate", &in.base, &code);
    brrctl_job_file_done(&file);
    brrctl_job_file_hint(o, code);
    if (!v)
        return code;
    code = fits(v) ? 0 : EXIT_FAILED;
    if (o->json)
        print_json(v);
    else
        print_text(v, o->args[0]);
    return code;
}

BRRCTL_COMMAND(validate, "FILE", ARGUMENTS(rows), cmd_validate, "show what a job would need, before it runs",
               "Memory, steps and a time estimate from a short measurement of the device, and what that costs by the daemon's\n"
               "devices_price_per_hour. Exit 1 if the job does not fit.\n"
               "example: brrctl validate configs/train_a100.yaml --set training.micro_batch_size=8");
