/* brr-bench: medians of kernels against the floor of this very machine. Floors come from rates measured in the same run, and
 * --compare goes by the ratio to them, so that a busier or slower machine is no regression. */
#include <sys/utsname.h>

#include "base/json.h"
#include "base/order.h"
#include "brr-bench/bench.h"
#include "kernels/device_rates.h"
#include "kernels/profile.h"
#include "revision.h"

enum { MAX_SAMPLES = 4096, WARM_UP = 3, LEAST_SAMPLES = 10 };

struct options {
    const char *bench, *name, *filter, *device, *json, *compare;
    int64_t threads;
    double seconds, threshold;
    enum dtype dtype;
    bool help, ops, processor_time; /* processor_time: of this thread, where others keep the processors busy */
};

struct report {
    struct str json;
    struct json_writer writer;
    struct json *old;
    int regressions, compared, failed;
};

static const char usage[] =
    "usage: brr-bench [BENCH [CASE]] [options]\n"
    "Medians of kernels against the floor of this very machine, one line per case.\n"
    "  --dtype f32|bf16      of the operands (f32)\n"
    "  --device cpu|cuda     (cpu)\n"
    "  --threads N           CPU threads, 0 = all (0)\n"
    "  --seconds S           per case (1)\n"
    "  --processor-time      of one thread instead of the clock, for machines with other work; CPU\n"
    "  --ops                 a table of each case's ops, slowest first, instead of its median: calls, time,\n"
    "                        bytes per second, floor, factor; without CUDA graphs\n"
    "  --filter TEXT         only cases with TEXT in \"BENCH CASE\"\n"
    "  --json FILE           also write the figures to FILE\n"
    "  --compare OLD.json    beside an earlier FILE; exits 1 when a ratio to the floor grew by more than\n"
    "  --threshold PERCENT   (15)\n";

static const struct bench_case *const tables[] = {bench_scan_cases, bench_layer_cases, bench_detector_cases,
                                                  bench_edf_cases,  bench_burst_cases, bench_geodesic_cases};

static double bench_clock_s(const struct options *o) {
    struct timespec t = {0};
    if (!o->processor_time)
        return clock_s();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Sorted milliseconds; returns how many. */
static int measure(const struct bench_case *c, void *state, struct stream *s, const struct options *o, double *samples,
                   struct err *err) {
    double end = clock_s() + o->seconds;
    struct device_info info;
    int n = 0, together = 1;
    device_describe(stream_device(s), &info);
    for (int i = -WARM_UP; i < MAX_SAMPLES && (n < LEAST_SAMPLES || clock_s() < end); i++) {
        double start = bench_clock_s(o);
        int rc = 0;
        for (int k = 0; !rc && k < together; k++)
            rc = c->run(state, s, err);
        if (!rc)
            rc = stream_sync(s, err);
        if (rc)
            return rc;
        double spent = bench_clock_s(o) - start;
        if (i >= 0)
            samples[n++] = spent / together * 1e3;
        else if (i == -1 && info.is_async) /* calls are queued: the wait for the device is shared by a millisecond of them */
            together = spent < 1e-3 ? (int)(1e-3 / (spent + 1e-6)) + 1 : 1;
    }
    SORT(samples, n, order_f64s);
    return n;
}

static double old_ratio(const struct json *old, const struct bench_case *c, const struct options *o) {
    const struct json *results = json_get(old, "results");
    for (size_t i = 0; i < json_count(results); i++) {
        const struct json *r = json_at(results, i);
        if (!strcmp(json_str(json_get(r, "bench"), ""), c->bench) && !strcmp(json_str(json_get(r, "case"), ""), c->name) &&
            !strcmp(json_str(json_get(r, "device"), ""), o->device) &&
            !strcmp(json_str(json_get(r, "dtype"), ""), dtype_name(o->dtype)) && json_i64(json_get(r, "batch"), 0) == c->batch)
            return json_f64(json_get(r, "ratio_to_floor"), 0);
    }
    return 0;
}

static void report_case(const struct bench_case *c, const struct options *o, const struct rates *rates, struct report *r,
                        const double quantile_ms[3], struct rates_work w) {
    const double floor_s = rates_floor(rates, &w, o->dtype), flops = w.flops + w.flops_act;
    double median = quantile_ms[0], rate = flops > 0 ? flops / median * 1e-6 : w.bytes / median * 1e-6;
    const char *unit = flops > 0 ? "gflops" : "gbps";
    printf("%s, %s, %s, %s, %d, %.4f, %.4f, %.4f, %.4f, %.2f, %.1f, %s", c->bench, c->name, o->device, dtype_name(o->dtype),
           c->batch, median, quantile_ms[1], quantile_ms[2], floor_s * 1e3, median / (floor_s * 1e3), rate, unit);
    double before = r->old ? old_ratio(r->old, c, o) : 0, ratio = median / (floor_s * 1e3);
    if (before > 0) {
        bool worse = ratio > before * (1 + o->threshold / 100);
        printf(", %.2fx of before%s", ratio / before, worse ? " WORSE" : "");
        r->regressions += worse;
        r->compared++;
    }
    printf("\n");
    fflush(stdout);
    struct json_writer *j = &r->writer;
    json_begin_object(j, NULL);
    json_put_str(j, "bench", c->bench);
    json_put_str(j, "case", c->name);
    json_put_str(j, "device", o->device);
    json_put_str(j, "dtype", dtype_name(o->dtype));
    json_put_i64(j, "batch", c->batch);
    json_put_f64(j, "median_ms", median);
    json_put_f64(j, "p10_ms", quantile_ms[1]);
    json_put_f64(j, "p90_ms", quantile_ms[2]);
    json_put_f64(j, "floor_ms", floor_s * 1e3);
    json_put_f64(j, "ratio_to_floor", median / (floor_s * 1e3));
    json_put_f64(j, unit, rate);
    json_put_str(j, "unit", unit);
    json_end(j, '}');
    str_printf(&r->json, "\n"); /* one line per case */
}

/* Where the time of a case goes. */
static int run_ops(const struct bench_case *c, const struct bench_context *x, const struct options *o, const struct rates *rates,
                   struct err *err) {
    static double samples[MAX_SAMPLES];
    struct profile *profile = profile_new();
    struct str table = str_of(1 << 20);
    void *state = NULL;
    int n = 0, rc = profile ? c->open(c, x, &state, err) : err_set(err, ERR_EXHAUSTED, "bench: out of memory");
    stream_profile(x->stream, profile);
    if (!rc)
        rc = (n = measure(c, state, x->stream, &(struct options){0}, samples, err)) < 0 ? n : 0; /* warm */
    if (!rc) {
        profile_reset(profile);
        n = measure(c, state, x->stream, o, samples, err);
        rc = n < 0 ? n : profile_table(profile, rates, &table, err);
    }
    stream_profile(x->stream, NULL);
    if (state)
        c->close(state, x->device);
    if (!rc)
        printf("\n%s %s, batch %d, %s: %.3f ms a run, median of %d\n%s", c->bench, c->name, c->batch, dtype_name(o->dtype),
               samples[n / 2], n, str_cstr(&table));
    str_done(&table);
    profile_free(profile);
    return rc;
}

static int run_case(const struct bench_case *c, const struct bench_context *x, const struct options *o, const struct rates *rates,
                    struct report *r, struct err *err) {
    static double samples[MAX_SAMPLES];
    void *state = NULL;
    int rc = c->open(c, x, &state, err);
    if (rc)
        return rc;
    int n = measure(c, state, x->stream, o, samples, err);
    c->close(state, x->device);
    if (n < 0)
        return n;
    report_case(c, o, rates, r, (double[]){samples[n / 2], samples[n / 10], samples[n * 9 / 10]}, c->work(c, x));
    return 0;
}

/* The processor as "model name", family, model and stepping: a virtual machine often hides the name, the numbers tell the design.
 */
static void put_cpu(struct json_writer *j) {
    static const char *const keys[][2] = {
        {"model name", "cpu_model"}, {"cpu family", "cpu_family"}, {"model\t", "cpu_model_number"}, {"stepping", "cpu_stepping"}};
    char line[256];
    unsigned seen = 0;
    OWNED_FILE FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f))
        for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
            char *value = strncmp(line, keys[i][0], strlen(keys[i][0])) ? NULL : strchr(line, ':');
            if (!value || seen >> i & 1)
                continue;
            seen |= 1u << i;
            value += 1 + strspn(value + 1, " \t");
            value[strcspn(value, "\n")] = '\0';
            json_put_str(j, keys[i][1], value);
        }
}

/* The machine and its rates, as the first line and in the file. */
static void put_machine(const struct options *o, struct report *r, const struct device_info *info, const struct rates *rates) {
    struct utsname os = {0};
    char day[32];
    uname(&os);
    clock_utc(clock_wall_ms(), CLOCK_ISO, day, sizeof day);
    printf("# %s; copy %.1f GB/s, exp %.1f G/s, fp32 %.0f GFLOP/s, bf16 ", info->description, rates->bytes * 1e-9,
           rates->exponentials * 1e-9, rates->flops * 1e-9);
    if (rates->bf16_instruction)
        printf("%.0f GFLOP/s (%s)", rates->flops_bf16 * 1e-9, rates->bf16_instruction);
    else
        printf("none");
    if (rates->host_bytes > 0)
        printf(", from the host %.1f GB/s", rates->host_bytes * 1e-9);
    printf("\n");
    struct json_writer *j = &r->writer;
    json_put_str(j, "machine", info->description);
    put_cpu(j);
    json_put_str(j, "os", os.release);
    json_put_str(j, "commit", revision_name);
    json_put_str(j, "time", day);
    json_put_str(j, "clock", o->processor_time ? "processor time of one thread" : "wall");
    json_put_f64(j, "copy_gbps", rates->bytes * 1e-9);
    if (rates->host_bytes > 0)
        json_put_f64(j, "host_copy_gbps", rates->host_bytes * 1e-9);
    json_put_f64(j, "gexp", rates->exponentials * 1e-9);
    json_put_f64(j, "gflops_f32", rates->flops * 1e-9);
    json_put_f64(j, "gflops_bf16", rates->flops_bf16 * 1e-9);
    if (rates->bf16_instruction)
        json_put_str(j, "bf16_instruction", rates->bf16_instruction);
    json_begin_array(j, "results");
}

static bool wanted(const struct options *o, const struct bench_case *c) {
    char both[128];
    str_format(both, sizeof both, "%s %s", c->bench, c->name);
    return !((o->bench && strcmp(o->bench, c->bench)) || (o->name && strcmp(o->name, c->name)) ||
             (o->filter && !strstr(both, o->filter)) || (c->f32_only && o->dtype != DTYPE_F32));
}

/* What the cases rested on; with cuBLASLt, how many shapes it declined. */
static void print_parts(void) {
    struct device_part parts[8];
    for (int i = 0, n = device_parts(parts, 8); i < n; i++)
        printf("# %s %s\n", parts[i].name, parts[i].version);
}

/* Runs the cases that are wanted; returns how many ran. One that fails leaves the others to run. */
static int run_cases(const struct options *o, const struct bench_context *x, const struct rates *rates, bool gpu,
                     struct report *r) {
    struct err err = {0};
    int ran = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct bench_case *c = tables[t]; c->name; c++) {
            if (!wanted(o, c) || (c->where != BENCH_ANYWHERE && (c->where == BENCH_GPU) != gpu))
                continue;
            if (o->ops ? run_ops(c, x, o, rates, &err) : run_case(c, x, o, rates, r, &err)) {
                printf("# %s %s failed: %s\n", c->bench, c->name, err.message);
                r->failed++;
            }
            ran++;
        }
    return ran;
}

static int run_all(const struct options *o, struct report *r, struct err *err) {
    struct bench_context x = {.dtype = o->dtype};
    int rc = device_open(o->device, (int)o->threads, &x.device, err), ran = 0;
    if (!rc)
        rc = stream_open(x.device, STREAM_HIGH, &x.stream, err); /* its owner spins where others sleep */
    if (!rc) {
        struct device_info info;
        struct rates rates;
        device_describe(x.device, &info);
        if (!(rc = rates_measure(x.stream, &rates, err)))
            put_machine(o, r, &info, &rates);
        if (!o->ops)
            printf("bench, case, device, dtype, batch, median_ms, p10_ms, p90_ms, floor_ms, ratio_to_floor, rate, unit\n");
        ran = rc ? 0 : run_cases(o, &x, &rates, info.is_async, r);
    }
    if (x.stream && strcmp(o->device, "cpu"))
        print_parts();
    stream_close(x.stream);
    device_close(x.device);
    if (!rc && !ran)
        rc = err_set(err, ERR_NOT_FOUND, "no case '%s%s%s'; run brr-bench without arguments to see all", o->bench ? o->bench : "",
                     o->name ? " " : "", o->name ? o->name : "");
    return rc;
}

static int parse(int argc, char **argv, struct options *o, struct err *err) {
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2)) {
            const char **slot = !o->bench ? &o->bench : !o->name ? &o->name : NULL;
            if (!slot)
                return err_set(err, ERR_INVALID, "unexpected argument '%s'; expected [BENCH [CASE]]", argv[i]);
            *slot = argv[i];
            continue;
        }
        if (!strcmp(argv[i], "--help")) {
            o->help = true;
            return 0;
        }
        if (!strcmp(argv[i], "--ops") || !strcmp(argv[i], "--processor-time")) {
            *(argv[i][2] == 'o' ? &o->ops : &o->processor_time) = true;
            continue;
        }
        const char *key = argv[i], *value = i + 1 < argc ? argv[++i] : NULL;
        if (!value)
            return err_set(err, ERR_INVALID, "%s needs a value", key);
        bool ok = true;
        if (!strcmp(key, "--dtype") && (!strcmp(value, "f32") || !strcmp(value, "bf16")))
            o->dtype = strcmp(value, "f32") ? DTYPE_BF16 : DTYPE_F32;
        else if (!strcmp(key, "--device"))
            o->device = strcmp(value, "cuda") ? value : "cuda:0";
        else if (!strcmp(key, "--threads"))
            ok = str_to_i64(value, &o->threads) && o->threads >= 0 && o->threads <= 1024;
        else if (!strcmp(key, "--seconds"))
            ok = str_to_f64(value, &o->seconds) && o->seconds >= 0 && o->seconds <= 600;
        else if (!strcmp(key, "--filter"))
            o->filter = value;
        else if (!strcmp(key, "--threshold"))
            ok = str_to_f64(value, &o->threshold) && o->threshold >= 0 && o->threshold <= 1000;
        else if (!strcmp(key, "--json"))
            o->json = value;
        else if (!strcmp(key, "--compare"))
            o->compare = value;
        else
            ok = false;
        if (!ok)
            return err_set(err, ERR_INVALID, "%s %s is not understood; brr-bench --help lists the options", key, value);
    }
    if (o->processor_time && (strcmp(o->device, "cpu") || o->threads > 1 || o->ops))
        return err_set(err, ERR_INVALID, "--processor-time measures one thread of the CPU, without --ops");
    o->threads = o->processor_time ? 1 : o->threads;
    return 0;
}

int main(int argc, char **argv) {
    struct err err = {0};
    struct options o = {.device = "cpu", .seconds = 1, .threshold = 15, .dtype = DTYPE_F32};
    struct report r = {0};
    int rc = parse(argc, argv, &o, &err);
    if (!rc && o.help)
        return fputs(usage, stdout) < 0;
    str_init(&r.json, 16 << 20);
    json_writer_init(&r.writer, &r.json);
    json_begin_object(&r.writer, NULL);
    if (!rc && o.compare)
        rc = json_read(o.compare, 16 << 20, &r.old, &err);
    if (!rc)
        rc = run_all(&o, &r, &err);
    json_end(&r.writer, ']');
    json_end(&r.writer, '}');
    if (!rc && o.compare && !r.compared)
        rc = err_set(&err, ERR_NOT_FOUND, "%s has none of these cases; is it of the same --device and --dtype?", o.compare);
    if (!rc && o.json)
        rc = fsio_write_atomic(o.json, str_cstr(&r.json), r.json.len, &err);
    if (rc) {
        char text[800];
        fprintf(stderr, "brr-bench: %s\n", err_text(&err, text, sizeof text));
    }
    if (r.failed)
        fprintf(stderr, "brr-bench: %d cases failed\n", r.failed);
    if (r.regressions)
        fprintf(stderr, "brr-bench: %d cases are more than %g %% further from their floors than in %s\n", r.regressions,
                o.threshold, o.compare);
    json_free(r.old);
    str_done(&r.json);
    return rc || r.failed || r.regressions ? 1 : 0;
}
