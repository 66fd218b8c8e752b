/* Any bytes as a table of spectra. What is accepted is sorted, finite and within the limits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"
#include "geodesic/spectra.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ascending(const double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]) || (i && !(x[i - 1] < x[i])))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    struct spectra s;
    struct err err;
    str_format(path, sizeof path, "/tmp/brr-fuzz-spectra-%ld.csv", (long)getpid());
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size)
        abort();
    fclose(file);
    if (spectra_read(path, &s, &err) == 0) {
        if (s.n < SPECTRA_MIN_CONCENTRATIONS || s.n > SPECTRA_MAX_CONCENTRATIONS || s.width < 2)
            abort();
        ascending(s.concentrations, s.n);
        ascending(s.wavelengths, s.width);
        for (int64_t i = 0; i < s.n * s.width; i++)
            if (!isfinite(s.absorbance[i]))
                abort();
        spectra_done(&s);
    }
    unlink(path);
    return 0;
}
