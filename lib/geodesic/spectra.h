/* spectra: absorbance spectra of one substance at known concentrations, read from a table or computed from a formula. The CSV's
 * header row names the wavelength column and then the concentrations (numbers); each further row is a wavelength in nm with one
 * absorbance per concentration. Columns and rows may come in any order and are sorted; a byte order mark and CRLF are accepted
 * (formats/table.h). Plain data once read; any thread. */
#pragma once

#include "store/digest.h"

enum { SPECTRA_MIN_CONCENTRATIONS = 3, SPECTRA_MAX_CONCENTRATIONS = 31, SPECTRA_MAX_WAVELENGTHS = 200000 };

struct spectra {
    int n;                        /* concentrations */
    int64_t width;                /* wavelengths, at least 2 */
    double *concentrations;       /* (n) ascending, all different, in the file's unit (ppb) */
    double *wavelengths;          /* (width) ascending, all different, nm */
    double *absorbance;           /* (n, width) */
    char sha256[DIGEST_HEX_SIZE]; /* of the file; of the absorbances for the formula */
};

/* INVALID names file, line and column: what is no finite number, names and wavelengths given twice, rows that are too short or
 * long, fewer than SPECTRA_MIN_CONCENTRATIONS columns or two rows. RANGE: more than there may be. */
int spectra_read(const char *path, struct spectra *ret, struct err *err);
/* The built-in example, free of any measurement: 601 wavelengths of 200..800 nm at 0, 10, 20, 30, 40 and 60 ppb,
 * A(c, λ) = .09 + .16·e^(−(λ−200)/14) + .03·e^(−((c−20)/14)²)·(.6 + .4·e^(−((λ−663)/60)²)) + .012·c/(c+15)·λ/800. */
int spectra_formula(struct spectra *ret, struct err *err);
void spectra_done(struct spectra *s);
