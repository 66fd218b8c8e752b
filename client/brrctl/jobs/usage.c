/* usage: what each caller's jobs took of the device. */

#include "base/needed.h"
#include "base/order.h"
#include "brr/v1/jobs.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/listing.h"
#include "client/brrctl/output.h"

struct usage_options {
    const char *since;
    int64_t beds;
};
#define OPTIONS struct usage_options
static const struct argument usage_rows[] = {
    TEXT("--since", since, "TIME", "only jobs that were submitted within this time, such as 24h or 30d"),
    INTEGER("--beds", beds, "N", "also what a month of a device costs that is kept for the streams of so many beds", 1, 1e6),
};

struct account {
    const char *owner;
    int64_t jobs, open, failed, run_ms, device_ms, attempts;
    double energy_j;
};

/* The account of an owner; accounts has room for one more. */
static struct account *account_of(struct account *accounts, size_t *n, const char *owner) {
    for (size_t i = 0; i < *n; i++)
        if (!strcmp(accounts[i].owner, owner))
            return &accounts[i];
    accounts[*n] = (struct account){.owner = owner};
    return &accounts[(*n)++];
}

static bool is_open(const Brr__V1__Job *job) {
    return job->state == BRR__V1__JOB_STATE__JOB_STATE_QUEUED || job->state == BRR__V1__JOB_STATE__JOB_STATE_PREPARING ||
           job->state == BRR__V1__JOB_STATE__JOB_STATE_RUNNING;
}

static size_t add_up(const Brr__V1__ListJobsResponse *list, int64_t since_ms, struct account *accounts) {
    size_t n = 0;
    for (size_t i = 0; i < list->n_jobs; i++) {
        const Brr__V1__Job *job = list->jobs[i];
        if (job->created_ms < since_ms)
            continue;
        struct account *a = account_of(accounts, &n, job->owner);
        a->jobs++;
        a->open += is_open(job);
        a->failed += job->state == BRR__V1__JOB_STATE__JOB_STATE_FAILED;
        a->attempts += job->attempts;
        a->run_ms += job->run_ms;
        a->device_ms += job->device_ms;
        a->energy_j += job->energy_joules;
    }
    return n;
}

ORDER_BY(by_time, struct account, order_then(order_i64(y->device_ms, x->device_ms), strcmp(x->owner, y->owner)))

static void add_account(struct listing *l, const struct account *a, const Brr__V1__ListJobsResponse *list, bool json) {
    const double cost = (double)a->device_ms / 3.6e6 * list->price_per_hour;
    if (json) {
        struct json_writer *w = output_begin();
        JSON_MEMBERS(w, *a, owner, jobs, open, failed, attempts, run_ms, device_ms);
        json_put_f64(w, "energy_joules", a->energy_j);
        json_put_f64(w, "cost", list->price_per_hour > 0 ? cost : NAN);
        json_put_str(w, "currency", list->currency);
        output_end(w);
        return;
    }
    char energy[32] = "-", money[64] = "-";
    if (list->price_per_hour > 0)
        str_format(money, sizeof money, "%.2f %.20s", cost, list->currency);
    if (a->energy_j > 0)
        str_format(energy, sizeof energy, "%.2f kWh", a->energy_j / 3.6e6);
    listing_row(l, "%s|%lld|%lld|%lld|%lld|%.2f h|%s|%s", *a->owner ? a->owner : "(not recorded)", (long long)a->jobs,
                (long long)a->open, (long long)a->failed, (long long)a->attempts, (double)a->device_ms / 3.6e6, energy, money);
}

/* Prints the price of a device for a month of 730 hours, in which it serves streams all the time. */
static void tell_month(const Brr__V1__ListJobsResponse *list, int64_t beds, bool json) {
    enum { HOURS = 730 };
    const double month = HOURS * list->price_per_hour;
    if (json) {
        struct json_writer *w = output_begin();
        json_put_i64(w, "beds", beds);
        json_put_f64(w, "month_cost", month > 0 ? month : NAN);
        json_put_f64(w, "month_cost_per_bed", month > 0 ? month / (double)beds : NAN);
        json_put_str(w, "currency", list->currency);
        output_end(w);
    } else if (month > 0) {
        printf("a month of a device: %.2f %s, %.2f for each of %lld beds\n", month, list->currency, month / (double)beds,
               (long long)beds);
    } else {
        printf("the price of a month of a device is not known: set devices_price_per_hour in daemon.yaml\n");
    }
}

static int cmd_usage(const struct arguments *o) {
    const Brr__V1__ListJobsRequest in = BRR__V1__LIST_JOBS_REQUEST__INIT;
    const struct usage_options *own = o->own;
    int64_t span_ms = 0;
    int code = 0;
    if (own->since && (!str_to_duration_ms(own->since, &span_ms) || span_ms <= 0)) {
        fprintf(stderr, "brrctl: --since %s: expected a time such as 24h or 30d\n", own->since);
        return EXIT_USAGE;
    }
    OWNED_ANSWER Brr__V1__ListJobsResponse *list = brrctl_call(o, "/brr.v1.Jobs/List", &in.base, &code);
    if (!list)
        return code;
    OWNED_MEMORY struct account *accounts = needed(calloc(list->n_jobs + 1, sizeof *accounts));
    const size_t n = add_up(list, own->since ? clock_wall_ms() - span_ms : INT64_MIN, accounts);
    SORT(accounts, n, by_time);
    struct listing listing;
    listing_begin(&listing, "caller|>jobs|>open|>failed|>attempts|>device time|>energy|>cost");
    for (size_t i = 0; i < n; i++)
        add_account(&listing, &accounts[i], list, o->json);
    listing_end(&listing);
    if (!n && !o->json)
        puts("no jobs");
    if (own->beds > 0)
        tell_month(list, own->beds, o->json);
    return 0;
}

BRRCTL_COMMAND(usage, "", ARGUMENTS(usage_rows), cmd_usage, "show who used the device: jobs, time, energy and cost by caller",
               "Counts the jobs that are listed (jobs.keep_finished); an attempt counts when it has ended.\nexample: brrctl usage "
               "--since 30d");
