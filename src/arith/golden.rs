//! The golden vectors of `tests/golden`, which an independent implementation of the contract made, and what a path through
//! this one makes of them.

use serde_json::Value;

use super::{
    ATTENTION_CHUNK, Kernels, KvPage, KvPageMut, MatrixView, OutputRows, QuantizedRow, RopeLayout, Sketch, SketchSigns,
    WeightFormat, WeightMemory, scalar,
};

/// One operation on given numbers, with what it has to give.
#[derive(Clone, Debug)]
pub struct Vector(Value);

/// What computes.
#[derive(Clone, Copy, Debug)]
pub enum Path {
    /// The definition.
    Scalar,
    /// An instruction set of the machine.
    Kernels(Kernels),
}

/// A vector that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("golden vectors: expected {expected} under `{field}`; make them again with tests/golden/make.py")]
pub struct Malformed {
    field: String,
    expected: &'static str,
}

fn malformed(field: &str, expected: &'static str) -> Malformed {
    Malformed { field: field.to_owned(), expected }
}

/// All of them.
///
/// # Errors
/// If they cannot be read.
pub fn vectors() -> Result<Vec<Vector>, Malformed> {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/operations.json"));
    let values: Vec<Value> = serde_json::from_str(text).map_err(|_| malformed("", "a JSON array"))?;
    Ok(values.into_iter().map(Vector).collect())
}

/// One block of Philox4x32-10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhiloxBlock {
    /// The key.
    pub key: u64,
    /// The counter.
    pub counter: [u32; 4],
    /// What has to come out.
    pub out: [u32; 4],
}

/// The published vectors of Philox4x32-10.
///
/// # Errors
/// If they cannot be read.
pub fn philox() -> Result<Vec<PhiloxBlock>, Malformed> {
    let wrong = || malformed("philox", "ten words per line");
    let lines = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/philox.txt"));
    let read = |line: &str| {
        let words = line.split(' ').map(|word| u32::from_str_radix(word, 16)).collect::<Result<Vec<_>, _>>();
        match words.as_deref() {
            Ok(&[c0, c1, c2, c3, k0, k1, ref out @ ..]) => Ok(PhiloxBlock {
                key: u64::from(k1) << 32 | u64::from(k0),
                counter: [c0, c1, c2, c3],
                out: out.try_into().map_err(|_| wrong())?,
            }),
            _ => Err(wrong()),
        }
    };
    lines.lines().filter(|line| !line.starts_with('#')).map(read).collect()
}

impl Vector {
    /// The operation's name.
    pub fn operation(&self) -> &str {
        self.0["op"].as_str().unwrap_or_default()
    }

    /// What has to come out, as bits, with every NaN the same.
    ///
    /// # Errors
    /// If the vector cannot be read.
    pub fn expected(&self) -> Result<Vec<u64>, Malformed> {
        match self.operation() {
            "quantize" => {
                let values = self.bytes("values")?.into_iter().map(u64::from);
                Ok(values.chain(bits(&self.floats("scales")?)).collect())
            }
            "checksum" | "gumbel" => Ok(vec![self.word("out")?]),
            _ => Ok(bits(&self.floats("out")?)),
        }
    }

    /// What a path makes of it, likewise; `None` where the path has nothing of its own for the operation.
    ///
    /// # Errors
    /// If the vector cannot be read.
    pub fn found(&self, path: Path) -> Result<Option<Vec<u64>>, Malformed> {
        Ok(Some(match self.operation() {
            "dot" => self.dot(path)?,
            "dequantize" => {
                let Path::Scalar = path else { return Ok(None) };
                let mut out = vec![0.0; self.floats("out")?.len()];
                let row = self.bytes("row")?;
                scalar::dequantize_row(&matrix(self.format()?, out.len(), &row)?, 0, &mut out);
                bits(&out)
            }
            "quantize" => {
                let x = self.floats("x")?;
                let row = match path {
                    Path::Scalar => scalar::quantize(&x),
                    Path::Kernels(kernels) => {
                        let mut row = QuantizedRow::default();
                        kernels.quantize(&x, &mut row);
                        row
                    }
                };
                row.values.iter().map(|value| u64::from(*value as u8)).chain(bits(&row.scales)).collect()
            }
            "rms_norm" => {
                let (x, weight) = (self.floats("x")?, self.floats("weight")?);
                let epsilon = self.floats("epsilon")?.first().copied().ok_or(malformed("epsilon", "a number"))?;
                let mut out = vec![0.0; x.len()];
                match path {
                    Path::Scalar => scalar::rms_norm(&x, &weight, epsilon, &mut out),
                    Path::Kernels(kernels) => kernels.rms_norm(&x, &weight, epsilon, &mut out),
                }
                bits(&out)
            }
            "silu_product" => {
                let (gate, up) = (self.floats("gate")?, self.floats("up")?);
                let mut out = vec![0.0; gate.len()];
                match path {
                    Path::Scalar => scalar::silu_product(&gate, &up, &mut out),
                    Path::Kernels(kernels) => kernels.silu_product(&gate, &up, &mut out),
                }
                bits(&out)
            }
            "exp" => {
                let mut x = self.floats("x")?;
                match path {
                    Path::Scalar => x.iter_mut().for_each(|x| *x = scalar::exp(*x)),
                    Path::Kernels(kernels) => kernels.exp_difference(&x.clone(), 0.0, &mut x),
                }
                bits(&x)
            }
            "rope" => self.rope(path)?,
            "attention" => self.attention(path)?,
            "short_convolution" => {
                let (columns, weights) = (self.floats("columns")?, self.floats("weights")?);
                let mut out = vec![0.0; self.floats("out")?.len()];
                let columns: Vec<&[f32]> = columns.chunks(out.len().max(1)).collect();
                match path {
                    Path::Scalar => scalar::short_convolution(&weights, &columns, &mut out),
                    Path::Kernels(kernels) => kernels.short_convolution(&weights, &columns, &mut out),
                }
                bits(&out)
            }
            "log_sum_exp" => {
                let x = self.floats("x")?;
                let statistics = match path {
                    Path::Scalar => scalar::row_statistics(&x),
                    Path::Kernels(kernels) => kernels.row_statistics(&x),
                };
                bits(&[statistics.log_sum_exp])
            }
            "checksum" => {
                let x = self.floats("x")?;
                vec![match path {
                    Path::Scalar => scalar::checksum(&x),
                    Path::Kernels(kernels) => kernels.checksum(&x),
                }]
            }
            "sketch" => {
                let x = self.floats("x")?;
                let Sketch { magnitude, projections } = match path {
                    Path::Scalar => scalar::sketch(&x),
                    Path::Kernels(kernels) => kernels.sketch(&SketchSigns::new(x.len()), &x),
                };
                bits(&[&[magnitude], &projections[..]].concat())
            }
            "gumbel" => {
                let (seed, position) = (self.word("seed")?, self.integer("position")?);
                let (choice, token) = (self.integer("choice")?, self.integer("token")?);
                let noise = match path {
                    Path::Scalar => scalar::gumbel(seed, position, choice, token),
                    Path::Kernels(kernels) => {
                        let mut row = vec![0.0; token as usize + 1];
                        kernels.gumbel(seed, position, choice, &mut row);
                        row[token as usize]
                    }
                };
                vec![noise.to_bits()]
            }
            _ => return Err(malformed("op", "an operation of the contract")),
        }))
    }

    fn dot(&self, path: Path) -> Result<Vec<u64>, Malformed> {
        let (format, row, x) = (self.format()?, self.bytes("row")?, self.floats("x")?);
        let matrix = matrix(format, x.len(), &row)?;
        let mut out = [0.0];
        match path {
            Path::Scalar => out[0] = scalar::dot(&matrix, 0, &scalar::activation(format, &x)),
            Path::Kernels(kernels) => {
                let packed = kernels.pack(&matrix, &mut WeightMemory::new());
                let packed = packed.map_err(|_| malformed("row", "a row that finds room in memory"))?;
                kernels.matmul(&packed, &[kernels.activation(format, &x)], OutputRows::new(&mut out, 1).all());
            }
        }
        Ok(bits(&out))
    }

    fn rope(&self, path: Path) -> Result<Vec<u64>, Malformed> {
        let (mut head, factors) = (self.floats("head")?, self.floats("factors")?);
        let factors = (!factors.is_empty()).then_some(factors.as_slice());
        let theta = self.0["theta"].as_f64().ok_or(malformed("theta", "a number"))?;
        let table = scalar::RopeTable::new(theta, head.len(), factors);
        let table = table.map_err(|_| malformed("factors", "one per pair of elements"))?;
        let layout = match self.text("layout")? {
            "interleaved" => RopeLayout::Interleaved,
            _ => RopeLayout::Halves,
        };
        let position = self.integer("position")?;
        match path {
            Path::Scalar => table.rotate(layout, position, &mut head),
            Path::Kernels(kernels) => kernels.rotate(&table.rotation(position), layout, &mut head),
        }
        Ok(bits(&head))
    }

    fn attention(&self, path: Path) -> Result<Vec<u64>, Malformed> {
        let (query, keys, values) = (self.floats("query")?, self.floats("keys")?, self.floats("values")?);
        let size = query.len();
        if size == 0 || keys.len() != values.len() || !keys.len().is_multiple_of(size) {
            return Err(malformed("keys", "whole keys, and as many values"));
        }
        let length = keys.len() / size;
        let (key, value) = (|k: usize| &keys[k * size..][..size], |k: usize| &values[k * size..][..size]);
        let scale = 1.0 / (size as f32).sqrt();
        let mut out = vec![0.0; size];
        match path {
            Path::Scalar => scalar::attention(&query, length, key, value, scale, &mut out),
            Path::Kernels(kernels) => {
                let elements = KvPage::elements(size);
                let mut pages = vec![[vec![0.0; elements], vec![0.0; elements]]; length.div_ceil(ATTENTION_CHUNK)];
                for position in 0..length {
                    let [keys, values] = &mut pages[position / ATTENTION_CHUNK];
                    let mut page = KvPageMut::F32 { keys, values };
                    page.store(position % ATTENTION_CHUNK, key(position), value(position));
                }
                let page = |page: usize| {
                    let [keys, values] = &pages[page];
                    KvPage::F32 { keys, values }
                };
                kernels.attention(&query, length, page, scale, &mut out);
            }
        }
        Ok(bits(&out))
    }

    /// A text.
    ///
    /// # Errors
    /// If there is none under `field`.
    pub fn text(&self, field: &str) -> Result<&str, Malformed> {
        self.0[field].as_str().ok_or_else(|| malformed(field, "a text"))
    }

    /// Bytes.
    ///
    /// # Errors
    /// Likewise.
    pub fn bytes(&self, field: &str) -> Result<Vec<u8>, Malformed> {
        let wrong = || malformed(field, "pairs of hexadecimal digits");
        let pair = |pair: &[u8]| str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
        self.text(field)?.as_bytes().chunks(2).map(pair).collect::<Option<_>>().ok_or_else(wrong)
    }

    /// Floats.
    ///
    /// # Errors
    /// Likewise.
    pub fn floats(&self, field: &str) -> Result<Vec<f32>, Malformed> {
        let bytes = self.bytes(field)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|word| f32::from_bits(u32::from_be_bytes(*word))).collect())
    }

    /// 64 bits.
    ///
    /// # Errors
    /// Likewise.
    pub fn word(&self, field: &str) -> Result<u64, Malformed> {
        u64::from_str_radix(self.text(field)?, 16).map_err(|_| malformed(field, "a 64-bit word"))
    }

    /// A number of 32 bits.
    ///
    /// # Errors
    /// Likewise.
    pub fn integer(&self, field: &str) -> Result<u32, Malformed> {
        let number = self.0[field].as_u64().and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| malformed(field, "a 32-bit number"))
    }

    /// The format of a matrix.
    ///
    /// # Errors
    /// Likewise.
    pub fn format(&self) -> Result<WeightFormat, Malformed> {
        let name = self.text("format")?;
        let format = WeightFormat::ALL.into_iter().find(|format| format.name() == name);
        format.ok_or_else(|| malformed("format", "a format of the contract"))
    }
}

fn matrix(format: WeightFormat, columns: usize, row: &[u8]) -> Result<MatrixView<'_>, Malformed> {
    MatrixView::new(format, 1, columns, row).map_err(|_| malformed("row", "a whole row of the format"))
}

/// Bits, with every NaN the same.
fn bits(values: &[f32]) -> Vec<u64> {
    values.iter().map(|value| u64::from(scalar::canonical(*value).to_bits())).collect()
}
