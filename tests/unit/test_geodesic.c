/* Geodesics in double precision: metrics whose paths are known, coupled flows, gradients, the properties that any metric has, and
 * the closed form against Runge–Kutta with shooting. */

#include "base/rng.h"
#include "closed_transport.h"
#include "geodesic_fixture.h"
#include "unit/cmocka_all.h"

static struct err err;
static void ok(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}
static void near(const char *what, double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s is %.13g, expected %.13g within %g", what, got, want, tolerance);
}

/* ---- metrics with known geodesics ------------------------------------------------------------------------------ */

#define UNUSED (void)p
static double t1_g(const double *p, double c) { return UNUSED, (void)c, 2.5; }
static double t1_gc(const double *p, double c) { return UNUSED, (void)c, 0; }
static double t2_g(const double *p, double c) { return UNUSED, exp(1.4 * c); }
static double t2_gc(const double *p, double c) { return UNUSED, 1.4 * exp(1.4 * c); }
static double t3_g(const double *p, double c) { return UNUSED, (c + 2) * (c + 2); }
static double t3_gc(const double *p, double c) { return UNUSED, 2 * (c + 2); }
static double t4_g(const double *p, double c) { return UNUSED, 1 / ((c + 2) * (c + 2)); }
static double t4_gc(const double *p, double c) { return UNUSED, -2 / ((c + 2) * (c + 2) * (c + 2)); }
static double t5_g(const double *p, double c) { return UNUSED, cosh(1.5 * c) * cosh(1.5 * c); }
static double t5_gc(const double *p, double c) { return UNUSED, 3 * cosh(1.5 * c) * sinh(1.5 * c); }
static double t6_g(const double *p, double c) { return UNUSED, 1 / ((1 + 4 * c * c) * (1 + 4 * c * c)); }
static double t6_gc(const double *p, double c) {
    double u = 1 + 4 * c * c;
    return UNUSED, -16 * c / (u * u * u);
}

static const struct known {
    const char *name;
    double (*g)(const double *, double), (*gc)(const double *, double);
    double a, b, s, v0, v1;
    double rk4; /* error that 100 steps of Runge–Kutta leave at the end */
} known[] = {
    {"T1", t1_g, t1_gc, -1, 1, 3.1622776602, 2, 2, 1e-12},
    {"T2", t2_g, t2_gc, -1, 1, 2.1673820053, 4.364571381207, 1.076290051512, 5e-8},
    {"T2r", t2_g, t2_gc, 2.0 / 3, -1, -1.5686920778, -.983709680122, -3.158957918791, 5e-8},
    {"T3", t3_g, t3_gc, -1, 1, 4, 4, 4.0 / 3, 4e-7},
    {"T4", t4_g, t4_gc, -1, 1, 1.098612288668, 1.098612288668, 3.295836866004, 5e-8},
    {"T5", t5_g, t5_gc, 1.0 / 3, 1, 1.0721227664, .950778715178, .455755136968, 5e-8},
    {"T6", t6_g, t6_gc, -1, 1, 1.1071487178, 5.535743588970, 5.535743588970, 4e-6},
    {"T6r", t6_g, t6_gc, 2.0 / 3, -1, -1.0172219679, -2.825616577494, -5.086109839489, 4e-6},
};
enum { KNOWN = sizeof known / sizeof *known };

static struct geodesic_paths paths_of(const struct geodesic_field *field, const double *a, const double *b, int64_t n) {
    return (struct geodesic_paths){
        .field = field, .n = n, .a = a, .b = b, .cells = 24, .order = 8, .steps = 100, .tolerance = 1e-12};
}

static void lengths_and_velocities_are_the_known_ones(void **state) {
    (void)state;
    for (int i = 0; i < KNOWN; i++) {
        const struct known *k = &known[i];
        struct analytic a = {.g = k->g, .gc = k->gc};
        struct geodesic_field field = analytic_field(&a);
        struct geodesic_paths p = paths_of(&field, &k->a, &k->b, 1);
        double s, v0, v1, value;
        ok(geodesic_lengths(&p, &s, &err));
        near(k->name, s, k->s, 1e-10);
        ok(transport_closed(&p, &(struct geodesic_transport){.value = &value, .start = &v0, .end = &v1}, &err));
        near(k->name, v0, k->v0, 1e-10);
        near(k->name, v1, k->v1, 1e-10);
    }
}

static void rules_are_exact_for_polynomials_of_twice_their_order(void **state) {
    (void)state;
    for (int i = 0; i < GEODESIC_RULES; i++) {
        struct geodesic_rule rule;
        geodesic_rule_of(geodesic_orders[i], &rule);
        assert_int_equal(rule.order, geodesic_orders[i]);
        for (int power = 0; power < 2 * rule.order; power++) {
            double sum = 0;
            for (int q = 0; q < rule.order; q++)
                sum += rule.weight[q] * pow(rule.node[q], power);
            near("a power", sum, 1.0 / (power + 1), 1e-15);
        }
    }
}

/* The rule of training: four nodes in each of six cells. */
static void quadrature_of_four_nodes_is_exact_to_the_stated_digits(void **state) {
    (void)state;
    for (int i = 0; i < KNOWN; i++) {
        const struct known *k = &known[i];
        struct analytic a = {.g = k->g, .gc = k->gc};
        struct geodesic_field field = analytic_field(&a);
        struct geodesic_paths p = paths_of(&field, &k->a, &k->b, 1);
        double s;
        p.cells = 6;
        p.order = 4;
        ok(geodesic_lengths(&p, &s, &err));
        near(k->name, s, k->s, k->g == t6_g ? 3e-7 : 4e-10);
    }
}

static void runge_kutta_from_the_quadrature_ends_at_the_target(void **state) {
    (void)state;
    for (int i = 0; i < KNOWN; i++) {
        const struct known *k = &known[i];
        struct analytic a = {.g = k->g, .gc = k->gc};
        struct geodesic_field field = analytic_field(&a);
        struct geodesic_paths p = paths_of(&field, &k->a, &k->b, 1);
        double value, v0, v1, miss;
        p.tolerance = INFINITY; /* not corrected */
        struct geodesic_transport t = {.value = &value, .start = &v0, .end = &v1, .miss = &miss};
        ok(geodesic_transport_ode(&p, &t, &err));
        near(k->name, miss, 0, k->rk4);
        near(k->name, v0, k->v0, 1e-10);
        near(k->name, v1, k->v1, 1e-4);
        p.tolerance = 1e-12;
        ok(geodesic_transport_ode(&p, &t, &err));
        near(k->name, miss, 0, 1e-11);
        near(k->name, v0, k->v0, 1e-4);
    }
}

static void shooting_from_the_straight_line_converges_but_for_the_steepest_metric(void **state) {
    (void)state;
    for (int i = 0; i < KNOWN; i++) {
        const struct known *k = &known[i];
        if (k->s < 0) /* from the other end the straight line is too fast for T2 */
            continue;
        struct analytic a = {.g = k->g, .gc = k->gc};
        struct geodesic_field field = analytic_field(&a);
        struct geodesic_paths p = paths_of(&field, &k->a, &k->b, 1);
        double v = k->b - k->a, miss;
        p.tolerance = 1e-9;
        ok(geodesic_shoot(&p, &v, 6, &miss, &err));
        if (k->g == t6_g)
            assert_true(!(miss < 1e-3));
        else
            near(k->name, miss, 0, 1e-9);
    }
}

/* ---- coupled flows --------------------------------------------------------------------------------------------- */

static double flow_v(double c, double v) { return (void)c, v; }
static double flow_v2(double c, double v) { return (void)c, v * v; }
static double flow_v3(double c, double v) { return (void)c, v * v * v; }
static double flow_c(double c, double v) { return (void)v, c; }

static void flows_along_a_known_path_add_up_to_the_known_values(void **state) {
    (void)state;
    static const struct {
        double (*f)(double, double);
        double value;
    } flows[] = {{flow_v, 2}, {flow_v2, 4.697544756707}, {flow_v3, 12.779345047618}, {flow_c, .226050207231}};
    for (int i = 0; i < 4; i++) {
        struct analytic a = {.g = t2_g, .gc = t2_gc, .f = flows[i].f};
        struct geodesic_field field = analytic_field(&a);
        double from = -1, to = 1, closed, ode;
        struct geodesic_paths p = paths_of(&field, &from, &to, 1);
        ok(transport_closed(&p, &(struct geodesic_transport){.value = &closed}, &err));
        near("closed form", closed, flows[i].value, 1e-11);
        ok(geodesic_transport_ode(&p, &(struct geodesic_transport){.value = &ode}, &err));
        near("Runge-Kutta", ode, flows[i].value, 2e-6);
        p.steps = 1000;
        ok(geodesic_transport_ode(&p, &(struct geodesic_transport){.value = &ode}, &err));
        near("Runge-Kutta, 1000 steps", ode, flows[i].value, 1e-9);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------- */

static double quadratic(const double *p, double c) { return p[0] + p[1] * c + p[2] * c * c; }
static double soft_g(const double *p, double c) { return exact_softplus(quadratic(p, c)) + 0.1; }
static double soft_gc(const double *p, double c) { return exact_sigmoid(quadratic(p, c)) * (p[1] + 2 * p[2] * c); }
static double soft_gcc(const double *p, double c) {
    double s = exact_sigmoid(quadratic(p, c)), d = p[1] + 2 * p[2] * c;
    return s * (1 - s) * d * d + 2 * p[2] * s;
}
static void soft_dp(const double *p, double c, double dg[3], double dgc[3]) {
    double s = exact_sigmoid(quadratic(p, c)), d = p[1] + 2 * p[2] * c, power = 1;
    for (int k = 0; k < 3; k++, power *= c) {
        dg[k] = s * power;
        dgc[k] = s * (1 - s) * power * d + s * (k == 0 ? 0 : k == 1 ? 1 : 2 * c);
    }
}
static double soft_f(double c, double v) { return tanh(c + v / 2) + 0.1 * v * v; }
static void soft_df(double c, double v, double *fc, double *fv) {
    double t = tanh(c + v / 2);
    *fc = 1 - t * t;
    *fv = (1 - t * t) / 2 + 0.2 * v;
}
static struct analytic soft(void) {
    return (struct analytic){
        .g = soft_g, .gc = soft_gc, .gcc = soft_gcc, .dp = soft_dp, .f = soft_f, .df = soft_df, .p = {.3, .8, -.5}};
}

static void the_gradient_of_the_metric_is_the_known_one(void **state) {
    (void)state;
    static const double want[3] = {-.009345618384, .085258764412, -.031659465789};
    for (int solver = 0; solver < 2; solver++) {
        struct analytic a = soft();
        struct geodesic_field field = analytic_field(&a);
        double from = -1, to = 2.0 / 3, value, one = 1;
        struct geodesic_paths p = paths_of(&field, &from, &to, 1);
        struct geodesic_transport t = {.value = &value, .gradient = &one};
        ok(solver ? geodesic_transport_ode(&p, &t, &err) : transport_closed(&p, &t, &err));
        near("A(1)", value, .865343215663, solver ? 1e-8 : 1e-11);
        for (int k = 0; k < 3; k++)
            near(solver ? "gradient by Runge-Kutta" : "gradient in closed form", a.grad[k], want[k], solver ? 1e-8 : 1e-11);
    }
}

/* ---- properties ------------------------------------------------------------------------------------------------ */

static double scaled_g(const double *p, double c) { return 7.3 * soft_g(p, c); }
static double scaled_gc(const double *p, double c) { return 7.3 * soft_gc(p, c); }

static double value_of(struct analytic *a, double from, double to) {
    struct geodesic_field field = analytic_field(a);
    struct geodesic_paths p = paths_of(&field, &from, &to, 1);
    double value;
    ok(transport_closed(&p, &(struct geodesic_transport){.value = &value}, &err));
    return value;
}
static double length_of(struct analytic *a, double from, double to) {
    struct geodesic_field field = analytic_field(a);
    struct geodesic_paths p = paths_of(&field, &from, &to, 1);
    double s;
    ok(geodesic_lengths(&p, &s, &err));
    return s;
}

static void lengths_reverse_and_add_up(void **state) {
    (void)state;
    struct analytic a = soft();
    near("reversed", length_of(&a, -1, .4), -length_of(&a, .4, -1), 1e-14);
    near("in two parts", length_of(&a, -1, .1) + length_of(&a, .1, .9), length_of(&a, -1, .9), 1e-12);
}

static void a_scaled_metric_changes_nothing(void **state) {
    (void)state;
    struct analytic a = soft(), scaled = soft();
    scaled.g = scaled_g;
    scaled.gc = scaled_gc;
    near("value", value_of(&scaled, -1, .7), value_of(&a, -1, .7), 1e-13);
}

static double homogeneous(double c, double v) { return v * (sin(3 * c) + 0.4); }
static void homogeneous_df(double c, double v, double *fc, double *fv) {
    *fc = 3 * v * cos(3 * c);
    *fv = sin(3 * c) + 0.4;
}

/* A flow proportional to the velocity gives ∫ h dc whatever the metric: the metric cancels, and so does its gradient. */
static void a_flow_proportional_to_velocity_does_not_feel_the_metric(void **state) {
    (void)state;
    struct analytic a = soft(), b = {.g = t2_g, .gc = t2_gc, .f = homogeneous};
    a.f = homogeneous;
    a.df = homogeneous_df;
    near("value", value_of(&a, -1, .7), value_of(&b, -1, .7), 1e-11);
    near("value", value_of(&a, -1, .7), (cos(-3) - cos(2.1)) / 3 + 0.4 * 1.7, 1e-11);
    struct geodesic_field field = analytic_field(&a);
    double from = -1, to = .7, value, one = 1;
    struct geodesic_paths p = paths_of(&field, &from, &to, 1);
    ok(transport_closed(&p, &(struct geodesic_transport){.value = &value, .gradient = &one}, &err));
    for (int k = 0; k < 3; k++)
        near("gradient", a.grad[k], 0, 1e-11);
}

/* w·v is conserved, and Σ|v|·dt is the distance. */
static void speed_is_conserved_along_runge_kutta(void **state) {
    (void)state;
    struct analytic a = soft();
    a.f = flow_v;
    struct geodesic_field field = analytic_field(&a);
    double from = .9, to = -1, value, v0, v1;
    struct geodesic_paths p = paths_of(&field, &from, &to, 1);
    ok(geodesic_transport_ode(&p, &(struct geodesic_transport){.value = &value, .start = &v0, .end = &v1}, &err));
    near("w·v", sqrt(soft_g(a.p, to)) * v1, sqrt(soft_g(a.p, from)) * v0, 1e-8);
    near("distance", value, to - from, 1e-9);
}

/* ---- a table of Christoffel symbols, as an oracle -------------------------------------------------------------- */

enum { TABLE = 2000 };
struct table {
    double gamma[TABLE];
};
/* Linear between the nodes −1 + 2i/(TABLE − 1). */
static double table_at(const struct table *t, double c) {
    double x = (c + 1) / 2 * (TABLE - 1);
    int i = (int)fmin(fmax(floor(x), 0), TABLE - 2);
    return t->gamma[i] + (x - i) * (t->gamma[i + 1] - t->gamma[i]);
}
/* g = exp(2∫Γ) has the Christoffel symbol Γ; only g_c/(2g) reaches the equation. */
static struct table table;
static double table_g(const double *p, double c) { return UNUSED, (void)c, 1; }
static double table_gc(const double *p, double c) { return UNUSED, 2 * table_at(&table, c); }

static void a_table_of_christoffel_symbols_gives_the_same_paths(void **state) {
    (void)state;
    for (int i = 0; i < KNOWN; i++) {
        const struct known *k = &known[i];
        for (int n = 0; n < TABLE; n++) {
            double c = -1 + 2.0 * n / (TABLE - 1);
            table.gamma[n] = k->gc(NULL, c) / (2 * k->g(NULL, c));
        }
        for (int n = 0; n < TABLE; n++)
            near("the table at its own node", table_at(&table, -1 + 2.0 * n / (TABLE - 1)), table.gamma[n], 1e-11);
        struct analytic a = {.g = table_g, .gc = table_gc};
        struct geodesic_field field = analytic_field(&a);
        struct geodesic_paths p = paths_of(&field, &k->a, &k->b, 1);
        double v = k->v0, miss;
        ok(geodesic_shoot(&p, &v, 0, &miss, &err));
        near(k->name, miss, 0, 1e-5);
    }
}

/* ---- networks -------------------------------------------------------------------------------------------------- */

enum { METRIC_COUNT = 33665, FLOW_COUNT = 8705, PATHS = 5 };
static double metric_params[METRIC_COUNT], flow_params[FLOW_COUNT], dmetric[2][METRIC_COUNT], dflow[2][FLOW_COUNT];

static void draw(double *p, struct mlp_shape n, double gain, uint32_t stream) {
    struct mlp_offsets o = mlp_offsets_of(n);
    struct rng rng;
    rng_init(&rng, 11, stream, 0);
    for (int64_t i = 0; i < mlp_count(n); i++) {
        double fan = i < o.w2 ? n.in + n.hidden1 : i < o.w3 ? n.hidden1 + n.hidden2 : n.hidden2 + 1;
        p[i] = gain * sqrt(6 / fan) * (2 * rng_uniform(&rng) - 1);
    }
}

static void both_solvers_agree_on_networks(void **state) {
    (void)state;
    const double a[PATHS] = {-1, -1, 1, .5, 1.0 / 3}, b[PATHS] = {1, .25, -1, -1, 2.0 / 3};
    double gradient[PATHS] = {1, -.5, 2, .3, 1};
    double closed[PATHS], ode[PATHS];
    draw(metric_params, GEODESIC_METRIC, 1, 1);
    draw(flow_params, geodesic_head_shape(GEODESIC_FLOW), 1, 2);
    for (int solver = 0; solver < 2; solver++) {
        struct exact_nets nets = {metric_params, flow_params, dmetric[solver], dflow[solver], .3, .1};
        struct geodesic_field field = exact_field(&nets);
        struct geodesic_paths p = paths_of(&field, a, b, PATHS);
        struct geodesic_transport t = {.value = solver ? ode : closed, .gradient = gradient};
        ok(solver ? geodesic_transport_ode(&p, &t, &err) : transport_closed(&p, &t, &err));
    }
    for (int i = 0; i < PATHS; i++)
        near("value", ode[i], closed[i], 1e-7);
    double size = 0, difference = 0, metric = 0;
    for (int i = 0; i < METRIC_COUNT; i++) {
        size += dmetric[0][i] * dmetric[0][i];
        difference += pow(dmetric[1][i] - dmetric[0][i], 2);
    }
    metric = size;
    for (int i = 0; i < FLOW_COUNT; i++) {
        size += dflow[0][i] * dflow[0][i];
        difference += pow(dflow[1][i] - dflow[0][i], 2);
    }
    near("gradients' distance", sqrt(difference / size), 0, 1e-6);
    assert_true(metric > 1e-6 * size); /* the data reach the metric */
}

/* The networks' own gradients, by differences. */
static void gradients_of_networks_are_those_of_differences(void **state) {
    (void)state;
    const double a[2] = {-1, .7}, b[2] = {.6, -.2};
    double gradient[2] = {1, -1}, value[2], moved[2];
    draw(metric_params, GEODESIC_METRIC, 1, 1);
    draw(flow_params, geodesic_head_shape(GEODESIC_FLOW), 1, 2);
    memset(dmetric, 0, sizeof dmetric);
    memset(dflow, 0, sizeof dflow);
    struct exact_nets nets = {metric_params, flow_params, dmetric[0], dflow[0], -.4, .1};
    struct geodesic_field field = exact_field(&nets);
    struct geodesic_paths p = paths_of(&field, a, b, 2);
    p.cells = 4;
    p.order = 4;
    ok(transport_closed(&p, &(struct geodesic_transport){.value = value, .gradient = gradient}, &err));
    struct rng rng;
    rng_init(&rng, 12, 3, 0);
    for (int trial = 0; trial < 60; trial++) {
        bool metric = trial % 2;
        int64_t at = (int64_t)rng_below(&rng, metric ? METRIC_COUNT : FLOW_COUNT);
        double *x = metric ? &metric_params[at] : &flow_params[at], kept = *x, side[2], h = 1e-5;
        for (int s = 0; s < 2; s++) {
            *x = kept + (s ? h : -h);
            ok(transport_closed(&p, &(struct geodesic_transport){.value = moved}, &err));
            side[s] = moved[0] * gradient[0] + moved[1] * gradient[1];
        }
        *x = kept;
        double want = (side[1] - side[0]) / (2 * h), got = metric ? dmetric[0][at] : dflow[0][at];
        near("gradient", got, want, 1e-7 * fabs(want) + 2e-10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_and_velocities_are_the_known_ones),
        cmocka_unit_test(rules_are_exact_for_polynomials_of_twice_their_order),
        cmocka_unit_test(quadrature_of_four_nodes_is_exact_to_the_stated_digits),
        cmocka_unit_test(runge_kutta_from_the_quadrature_ends_at_the_target),
        cmocka_unit_test(shooting_from_the_straight_line_converges_but_for_the_steepest_metric),
        cmocka_unit_test(flows_along_a_known_path_add_up_to_the_known_values),
        cmocka_unit_test(the_gradient_of_the_metric_is_the_known_one),
        cmocka_unit_test(lengths_reverse_and_add_up),
        cmocka_unit_test(a_scaled_metric_changes_nothing),
        cmocka_unit_test(a_flow_proportional_to_velocity_does_not_feel_the_metric),
        cmocka_unit_test(speed_is_conserved_along_runge_kutta),
        cmocka_unit_test(a_table_of_christoffel_symbols_gives_the_same_paths),
        cmocka_unit_test(both_solvers_agree_on_networks),
        cmocka_unit_test(gradients_of_networks_are_those_of_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
