//! Plots of what steps show, as SVG: readable on light and on dark paper, and without colour.
//!
//! A mark that stands for a failing step has another shape, not just another colour. How many marks there are is bounded by what
//! [`StepFacts`](crate::forensics::report::StepFacts) keeps.

use std::error::Error;
use std::ops::Range;

use plotters::chart::MeshStyle;
use plotters::coord::ranged1d::SegmentValue;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::html::Escaped;
use crate::forensics::report::{Cell, Lengths, Mark, Populations, Series};

type Drawn = Result<String, Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

const WIDTH: u32 = 900;
const HEIGHT: u32 = 340;

/// Stand for colours that depend on the paper, until [`svg`] names them.
const INK: RGBColor = RGBColor(1, 2, 3);
const BAD: RGBColor = RGBColor(4, 5, 6);
const GOOD: RGBColor = RGBColor(7, 8, 9);
const NAMED: [(&str, &str); 3] =
    [("\"#010203\"", "\"currentColor\""), ("\"#040506\"", "\"var(--bad)\""), ("\"#070809\"", "\"var(--good)\"")];

/// A drawing with its text alternative. `name` is another one for every drawing of the page.
fn svg(
    name: &str,
    (title, words): (&str, &str),
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Result<(), Box<dyn Error>>,
) -> Drawn {
    let mut drawing = String::new();
    let area = SVGBackend::with_string(&mut drawing, (WIDTH, height)).into_drawing_area();
    draw(&area)?;
    area.present()?;
    drop(area);
    // The root element's name space is an address, and an element of a page needs none.
    let marks = drawing.split_once('>').map_or("", |(_, marks)| marks);
    let mut marks = marks.to_owned();
    for (sentinel, named) in NAMED {
        marks = marks.replace(sentinel, named);
    }
    Ok(format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{name}-title {name}-words\">\n\
         <title id=\"{name}-title\">{}</title>\n<desc id=\"{name}-words\">{}</desc>{}",
        Escaped(title),
        Escaped(words),
        marks.trim_end()
    ))
}

/// Numbers of steps, on a logarithmic scale or from 0 on.
pub(super) struct Scatter<'a> {
    pub(super) series: &'a Series,
    /// What stands at the axis of the numbers.
    pub(super) axis: &'a str,
    /// Whether the scale is logarithmic; numbers are then counted from 1.
    pub(super) is_logarithmic: bool,
}

/// Numbers of steps over the steps.
pub(super) fn scatter(name: &str, alternative: (&str, &str), plot: &Scatter<'_>) -> Drawn {
    let add = if plot.is_logarithmic { 1.0 } else { 0.0 };
    let marks = || plot.series.marks();
    let first = marks().map(|mark| mark.step).min().unwrap_or(0) as f64;
    let last = marks().map(|mark| mark.step).max().unwrap_or(0) as f64;
    let most = marks().map(|mark| mark.value + add).fold(1.0, f64::max);
    let steps = first - 0.02 * (last - first).max(1.0)..last + 0.02 * (last - first).max(1.0);
    svg(name, alternative, HEIGHT, |area| {
        if plot.is_logarithmic {
            let mut chart = builder(area, 62).build_cartesian_2d(steps, (0.8..most * 1.6).log_scale())?;
            mesh(&mut chart.configure_mesh(), "step", plot.axis)
                .x_label_formatter(&count_label)
                .y_label_formatter(&count_label)
                .draw()?;
            draw_series(&mut chart, plot.series, add)
        } else {
            let mut chart = builder(area, 62).build_cartesian_2d(steps, -0.03 * most..most * 1.08)?;
            mesh(&mut chart.configure_mesh(), "step", plot.axis).x_label_formatter(&count_label).draw()?;
            draw_series(&mut chart, plot.series, add)
        }
    })
}

fn draw_series<'a, Y: Ranged<ValueType = f64>>(
    chart: &mut ChartContext<'_, SVGBackend<'a>, Cartesian2d<plotters::coord::types::RangedCoordf64, Y>>,
    series: &Series,
    add: f64,
) -> Result<(), Box<dyn Error>> {
    let at = |mark: &Mark| (mark.step as f64, mark.value + add);
    let others = series.others.kept().iter().map(|mark| Circle::new(at(mark), 3, GOOD.stroke_width(1)));
    chart.draw_series(others)?;
    let failing = series.failing.kept().iter().map(|mark| TriangleMarker::new(at(mark), 6, BAD.filled()));
    chart.draw_series(failing)?;
    Ok(())
}

/// Steps by how many tokens they read and how many the step before had accepted; marks are as large as there are many.
pub(super) fn lengths(name: &str, alternative: (&str, &str), lengths: &Lengths) -> Drawn {
    let cells = || lengths.cells();
    let most_read = cells().map(|((read, _), _)| read).max().unwrap_or(1);
    let most_accepted = cells().map(|((_, accepted), _)| accepted).max().unwrap_or(1);
    let most = cells().map(|(_, cell)| cell.failing.max(cell.passing).max(cell.unjudged)).max().unwrap_or(1) as f64;
    let size = |count: u64| 3 + (9.0 * (count as f64 / most).sqrt()).round() as i32;
    let (read, accepted) = (0.0..f64::from(most_read) + 1.0, 0.0..f64::from(most_accepted) + 1.0);
    let diagonal = read.end.min(accepted.end);
    svg(name, alternative, 420, |area| {
        let mut chart = builder(area, 62).build_cartesian_2d(read, accepted)?;
        let axes = ("q_len: tokens that the step read", "prev_accepted: tokens accepted before");
        mesh(&mut chart.configure_mesh(), axes.0, axes.1)
            .x_label_formatter(&count_label)
            .y_label_formatter(&count_label)
            .draw()?;
        let ends = vec![(0.0, 0.0), (diagonal, diagonal)];
        chart.draw_series([PathElement::new(ends, INK.mix(0.6).stroke_width(1))])?;
        let at = |(read, accepted): (u32, u32)| (f64::from(read), f64::from(accepted));
        let of = |count: fn(&Cell) -> u64| {
            cells().map(move |(place, cell)| (at(place), count(&cell))).filter(|(_, count)| *count > 0)
        };
        let unjudged = of(|cell| cell.unjudged);
        chart
            .draw_series(unjudged.map(|(place, count)| Cross::new(place, size(count), INK.mix(0.7).stroke_width(1))))?;
        let passing = of(|cell| cell.passing);
        chart.draw_series(passing.map(|(place, count)| Circle::new(place, size(count), GOOD.stroke_width(2))))?;
        let failing = of(|cell| cell.failing);
        chart.draw_series(failing.map(|(place, count)| TriangleMarker::new(place, size(count) + 2, BAD.filled())))?;
        Ok(())
    })
}

/// Rows by how many tokens their mask allows.
pub(super) fn populations(name: &str, alternative: (&str, &str), populations: &Populations) -> Drawn {
    let bars: Vec<(String, u64)> = population_bars(populations);
    let most = bars.iter().map(|(_, rows)| *rows).max().unwrap_or(1).max(1);
    let last = i32::try_from(bars.len()).unwrap_or(i32::MAX) - 1;
    svg(name, alternative, HEIGHT, |area| {
        let mut chart = builder(area, 62).build_cartesian_2d((0..last).into_segmented(), 0.0..most as f64 * 1.12)?;
        let label = |value: &SegmentValue<i32>| label_of(&bars, value);
        mesh(&mut chart.configure_mesh(), "tokens that the applied mask allows, up to", "logits rows")
            .disable_x_mesh()
            .x_labels(bars.len())
            .x_label_formatter(&label)
            .y_label_formatter(&count_label)
            .draw()?;
        let bar = |(index, (_, rows)): (usize, &(String, u64))| {
            let index = i32::try_from(index).unwrap_or(i32::MAX);
            let corners = [(SegmentValue::Exact(index), 0.0), (SegmentValue::Exact(index + 1), *rows as f64)];
            let mut bar = Rectangle::new(corners, GOOD.mix(0.85).filled());
            bar.set_margin(0, 0, 5, 5);
            bar
        };
        chart.draw_series(bars.iter().enumerate().map(bar))?;
        let above = ink(14).pos(Pos::new(HPos::Center, VPos::Bottom));
        let text = |(index, (_, rows)): (usize, &(String, u64))| {
            let index = i32::try_from(index).unwrap_or(i32::MAX);
            Text::new(
                rows.to_string(),
                (SegmentValue::CenterOf(index), *rows as f64 + most as f64 * 0.01),
                above.clone(),
            )
        };
        let with_rows = bars.iter().enumerate().filter(|(_, (_, rows))| *rows > 0);
        chart.draw_series(with_rows.map(text))?;
        Ok(())
    })
}

/// From the first to the last power of two that rows have.
fn population_bars(populations: &Populations) -> Vec<(String, u64)> {
    let rows = &populations.up_to;
    let has_rows = |rows: &u64| *rows > 0;
    let first = rows.iter().position(has_rows).unwrap_or(0);
    let last = rows.iter().rposition(has_rows).unwrap_or(0);
    let name = |power: usize| match power {
        power if power <= 16 => (1_u64 << power).to_string(),
        power => format!("2^{power}"),
    };
    let empty = (populations.empty > 0).then(|| ("0".to_owned(), populations.empty));
    let powers = rows.iter().enumerate().skip(first).take(last + 1 - first);
    empty.into_iter().chain(powers.map(|(power, rows)| (name(power), *rows))).collect()
}

/// Channels by their bytes.
pub(super) fn channels(name: &str, alternative: (&str, &str), channels: &[(&'static str, u64)]) -> Drawn {
    let bars: Vec<(String, u64)> = channels.iter().rev().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
    let most = bars.iter().map(|(_, bytes)| *bytes).max().unwrap_or(1).max(1);
    let last = i32::try_from(bars.len()).unwrap_or(i32::MAX) - 1;
    let height = 90 + 34 * u32::try_from(bars.len()).unwrap_or(0);
    svg(name, alternative, height, |area| {
        let range: Range<f64> = 0.0..most as f64 * 1.15;
        let mut chart = builder(area, 80).build_cartesian_2d(range, (0..last).into_segmented())?;
        let label = |value: &SegmentValue<i32>| label_of(&bars, value);
        mesh(&mut chart.configure_mesh(), "bytes before compression", "channel")
            .disable_y_mesh()
            .y_labels(bars.len())
            .y_label_formatter(&label)
            .x_label_formatter(&count_label)
            .draw()?;
        let bar = |(index, (_, bytes)): (usize, &(String, u64))| {
            let index = i32::try_from(index).unwrap_or(i32::MAX);
            let corners = [(0.0, SegmentValue::Exact(index)), (*bytes as f64, SegmentValue::Exact(index + 1))];
            let mut bar = Rectangle::new(corners, GOOD.mix(0.85).filled());
            bar.set_margin(5, 5, 0, 0);
            bar
        };
        chart.draw_series(bars.iter().enumerate().map(bar))?;
        let beside = ink(14).pos(Pos::new(HPos::Left, VPos::Center));
        let text = |(index, (_, bytes)): (usize, &(String, u64))| {
            let index = i32::try_from(index).unwrap_or(i32::MAX);
            let place = (*bytes as f64 + most as f64 * 0.008, SegmentValue::CenterOf(index));
            Text::new(bytes.to_string(), place, beside.clone())
        };
        chart.draw_series(bars.iter().enumerate().map(text))?;
        Ok(())
    })
}

fn label_of(bars: &[(String, u64)], value: &SegmentValue<i32>) -> String {
    let index = match value {
        SegmentValue::CenterOf(index) => usize::try_from(*index).ok(),
        SegmentValue::Exact(_) | SegmentValue::Last => None,
    };
    index.and_then(|index| bars.get(index)).map_or_else(String::new, |(name, _)| name.clone())
}

fn ink(size: u32) -> TextStyle<'static> {
    ("sans-serif", size * 5 / 4).into_font().color(&INK)
}

fn builder<'a, 'b>(area: &'a Area<'b>, left: u32) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder.margin(12).margin_right(24).x_label_area_size(48).y_label_area_size(left);
    builder
}

fn mesh<'s, 'a, 'b, X: Ranged, Y: Ranged, B: DrawingBackend>(
    style: &'s mut MeshStyle<'a, 'b, X, Y, B>,
    x: &str,
    y: &str,
) -> &'s mut MeshStyle<'a, 'b, X, Y, B> {
    style
        .x_desc(x)
        .y_desc(y)
        .axis_desc_style(ink(14))
        .label_style(ink(13))
        .axis_style(INK.mix(0.6))
        .bold_line_style(INK.mix(0.16))
        .light_line_style(TRANSPARENT)
}

/// A count as a label; a place between two counts has none.
fn count_label(value: &f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forensics::report::Thinned;

    const WORDS: (&str, &str) = ("<title>", "a & b");

    fn series(marks: &[(u64, f64)]) -> Series {
        let mut others = Thinned::new(10);
        marks.iter().for_each(|(step, value)| others.push(Mark { step: *step, value: *value }));
        Series { failing: Thinned::new(10), others, without: 0 }
    }

    /// The smallest and the largest things there are to draw.
    #[test]
    fn whatever_is_recorded_can_be_drawn() {
        let mut drawn = Vec::new();
        for marks in [&[(0, 0.0)][..], &[(7, 3.0), (7, 3.0)], &[(0, 0.0), (u64::MAX, 1e30)], &[(3, 4_294_967_295.0)]] {
            for is_logarithmic in [true, false] {
                let series = series(marks);
                let plot = Scatter { series: &series, axis: "y", is_logarithmic };
                drawn.push(scatter("a", WORDS, &plot).unwrap());
            }
        }
        let mut rows = [0; 33];
        for power in [0, 32] {
            rows[power] = u64::MAX;
            drawn.push(populations("b", WORDS, &Populations { empty: 0, up_to: rows, without: 0 }).unwrap());
        }
        drawn.push(populations("b", WORDS, &Populations { empty: 1, up_to: [0; 33], without: 0 }).unwrap());
        for bytes in [0, 1, u64::MAX] {
            drawn.push(channels("c", WORDS, &[("header", bytes)]).unwrap());
        }
        drawn.push(lengths("d", WORDS, &Lengths::default()).unwrap());
        for svg in drawn {
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>"), "{svg}");
            assert!(svg.contains("&lt;title&gt;") && svg.contains("a &amp; b"), "{svg}");
            assert!(!svg.contains("http") && !svg.contains("\"#") && !svg.contains("NaN"), "{svg}");
        }
    }
}
