//! Error against the number of bones: as data, as CSV, and as a page with a plot.

use std::fmt::Write;

use bonesmith_core::fit::{self, Method, Sweep, SweepPoint};
use bonesmith_core::{MeshSequence, Observer};

use crate::error::Error;
use crate::fit::FitOptions;
use crate::text::figure;

/// Errors against numbers of bones, of one animation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Swept {
    /// Name of the animation.
    pub name: String,
    /// The figures.
    pub sweep: Sweep,
}

/// Fits every number of bones in `counts` in one run, each out of the one before.
pub fn sweep(
    sequence: &MeshSequence,
    options: &FitOptions,
    counts: &[usize],
    observer: &mut dyn Observer,
) -> Result<Swept, Error> {
    options.validate()?;
    let method = options.params.method;
    if method != Method::Bonesmith || options.skeleton.is_some() || options.eigenskin.is_some() {
        let what = "a sweep is of free bones by the method bonesmith, without a skeleton or corrective shapes";
        return Err(Error::unsupported(what));
    }
    let sweep = fit::sweep(sequence, &options.weighed(sequence)?, counts, observer)?;
    Ok(Swept { name: sequence.name().to_owned(), sweep })
}

/// Width and height of the plot, and the room around it.
const PLOT: (f64, f64, f64) = (720.0, 380.0, 56.0);

impl Swept {
    /// The knee of the curve: after it each bone lowers the error less.
    pub fn knee(&self) -> Option<&SweepPoint> {
        self.sweep.knee.map(|at| &self.sweep.points[at])
    }

    /// As a table for spreadsheets.
    pub fn csv(&self) -> String {
        let mut text = "bones,e_rms,max_error,knee\n".to_owned();
        for (at, SweepPoint { bones, e_rms, max_error }) in self.sweep.points.iter().enumerate() {
            let knee = u8::from(self.sweep.knee == Some(at));
            let _ = writeln!(text, "{bones},{e_rms},{max_error},{knee}");
        }
        text
    }

    /// As a page with a plot and a table, complete in itself.
    pub fn page(&self) -> String {
        let title = format!("Bones of {}", escaped(&self.name));
        let advice = self.knee().map_or_else(String::new, |knee| {
            let (bones, e_rms) = (knee.bones, figure(knee.e_rms));
            format!(
                "<p>Knee of the curve: {bones} bones (E_RMS {e_rms}). After it each bone lowers the error less.</p>"
            )
        });
        let row = |(at, point): (usize, &SweepPoint)| {
            let class = if self.sweep.knee == Some(at) { " class=\"knee\"" } else { "" };
            let (e_rms, most) = (figure(point.e_rms), figure(point.max_error));
            format!("<tr{class}><td>{}</td><td>{e_rms}</td><td>{most}</td></tr>", point.bones)
        };
        let rows: String = self.sweep.points.iter().enumerate().map(row).collect();
        format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
             <style>body{{font:15px sans-serif;margin:2em auto;max-width:760px;color:#222}}table{{border-collapse:collapse}}\
             td,th{{padding:.25em 1em;text-align:right;border-bottom:1px solid #ddd}}.knee{{background:#fff3d0}}\
             svg text{{font:12px sans-serif;fill:#555}}</style></head><body><h1>{title}</h1>\
             <p>Error in thousandths of the model's radius against the number of bones.</p>{}{advice}\
             <table><tr><th>bones</th><th>E_RMS</th><th>max error</th></tr>{rows}</table></body></html>\n",
            self.plot()
        )
    }

    /// E_RMS over bones, both axes logarithmic: steps of the same ratio are as wide.
    fn plot(&self) -> String {
        let (width, height, room) = PLOT;
        let points = &self.sweep.points;
        let floor = 1e-3;
        let error = |e: f64| e.max(floor).log10();
        let bones = |b: usize| (b as f64).log10();
        let range = |values: Vec<f64>| {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            (low, (high - low).max(0.1))
        };
        let (left, wide) = range(points.iter().map(|p| bones(p.bones)).collect());
        let (low, high) = range(points.iter().map(|p| error(p.e_rms)).collect());
        let x = |b: usize| room + (bones(b) - left) / wide * (width - 2.0 * room);
        let y = |e: f64| height - room - (error(e) - low) / high * (height - 2.0 * room);
        let path: Vec<String> = points.iter().map(|p| format!("{:.1},{:.1}", x(p.bones), y(p.e_rms))).collect();
        let mut svg = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"E_RMS over bones\">\
             <polyline fill=\"none\" stroke=\"#3566b0\" stroke-width=\"2\" points=\"{}\"/>",
            path.join(" ")
        );
        for (at, point) in points.iter().enumerate() {
            let (x, y) = (x(point.bones), y(point.e_rms));
            let (radius, fill) = if self.sweep.knee == Some(at) { (7.0, "#e08a00") } else { (4.0, "#3566b0") };
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                height - room + 22.0,
                point.bones,
                y - 12.0,
                figure(point.e_rms)
            );
        }
        let _ =
            write!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">bones</text></svg>", width / 2.0, height - 8.0);
        svg
    }
}

/// Text that is no markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
