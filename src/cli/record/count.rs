//! Counts, as flags and as settings of a file.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A whole number from 1 to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<const MOST: usize>(usize);

impl<const MOST: usize> Count<MOST> {
    /// `number`, or the nearest number that is accepted.
    pub const fn nearest(number: usize) -> Self {
        match number {
            0 => Self(1),
            number if number > MOST => Self(MOST),
            number => Self(number),
        }
    }

    /// The number.
    pub const fn get(self) -> usize {
        self.0
    }

    fn of(number: u64) -> Option<Self> {
        usize::try_from(number).ok().filter(|number| (1..=MOST).contains(number)).map(Self)
    }
}

impl<const MOST: usize> FromStr for Count<MOST> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().ok().and_then(Self::of).ok_or_else(|| format!("expected a whole number from 1 to {MOST}"))
    }
}

impl<const MOST: usize> Serialize for Count<MOST> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, const MOST: usize> Deserialize<'de> for Count<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(Visitor)
    }
}

struct Visitor<const MOST: usize>;

impl<const MOST: usize> de::Visitor<'_> for Visitor<MOST> {
    type Value = Count<MOST>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a whole number from 1 to {MOST}")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        Count::of(number).ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        let count = u64::try_from(number).ok().and_then(Count::of);
        count.ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_to_the_most_is_accepted_and_the_error_says_so() {
        for (text, number) in [("1", 1), ("8", 8), ("+3", 3)] {
            assert_eq!(text.parse(), Ok(Count::<8>(number)));
        }
        for text in ["0", "9", "-1", "1.0", "", "18446744073709551616", "many"] {
            assert_eq!(text.parse::<Count<8>>(), Err("expected a whole number from 1 to 8".to_owned()), "{text}");
        }
        assert_eq!([0, 1, 8, 9].map(|number| Count::<8>::nearest(number).get()), [1, 1, 8, 8]);
    }
}
