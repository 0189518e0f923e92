//! Random records of any type: a serde deserializer that invents what it is asked for, so that new fields are covered
//! without being named here.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

/// A record made from `seed`.
pub(super) fn record<T: DeserializeOwned>(seed: u64) -> T {
    let mut inventor = Inventor { state: seed };
    T::deserialize(&mut inventor).expect("an invented record is always well-formed")
}

struct Inventor {
    state: u64,
}

impl Inventor {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Small and large values alike.
    fn integer(&mut self) -> u64 {
        let shift = self.below(64);
        self.next() >> shift
    }

    fn text(&mut self) -> String {
        const CHARACTERS: [char; 12] = ['a', 'Z', '0', '"', '\\', '\n', '\0', '/', 'é', '漢', '🦀', '\u{2028}'];
        (0..self.below(9)).map(|_| CHARACTERS[self.below(12) as usize]).collect()
    }
}

/// Never made: the inventor does not fail.
#[derive(Debug)]
struct Impossible(String);

impl fmt::Display for Impossible {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Impossible {}

impl serde::de::Error for Impossible {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

macro_rules! invent {
    ($($deserialize:ident => $visit:ident($value:expr)),* $(,)?) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
            let value: fn(&mut Inventor) -> _ = $value;
            visitor.$visit(value(self))
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Inventor {
    type Error = Impossible;

    invent!(
        deserialize_bool => visit_bool(|inventor| inventor.below(2) == 1),
        deserialize_u8 => visit_u8(|inventor| inventor.integer() as u8),
        deserialize_u16 => visit_u16(|inventor| inventor.integer() as u16),
        deserialize_u32 => visit_u32(|inventor| inventor.integer() as u32),
        deserialize_u64 => visit_u64(|inventor| inventor.integer()),
        deserialize_i8 => visit_i8(|inventor| inventor.integer() as i8),
        deserialize_i16 => visit_i16(|inventor| inventor.integer() as i16),
        deserialize_i32 => visit_i32(|inventor| inventor.integer() as i32),
        deserialize_i64 => visit_i64(|inventor| inventor.integer() as i64),
        // A NaN keeps its payload in the binary encodings only.
        deserialize_f32 => visit_f32(|inventor| {
            let value = f32::from_bits(inventor.next() as u32);
            if value.is_nan() { f32::NAN } else { value }
        }),
        deserialize_f64 => visit_f64(|inventor| {
            let value = f64::from_bits(inventor.next());
            if value.is_nan() { f64::NAN } else { value }
        }),
        deserialize_string => visit_string(Inventor::text),
        deserialize_str => visit_string(Inventor::text),
        // A hash, and a whole number of elements of any size.
        deserialize_bytes => visit_byte_buf(|inventor| (0..32).map(|_| inventor.next() as u8).collect()),
        deserialize_byte_buf => visit_byte_buf(|inventor| (0..32).map(|_| inventor.next() as u8).collect()),
    );

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        if self.below(3) == 0 { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        let left = self.below(4) as usize;
        visitor.visit_seq(Elements { inventor: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_seq(Elements { inventor: self, left: length })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        visitor.visit_map(Fields { inventor: self, fields: fields.iter() })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        let variant = variants[self.below(variants.len() as u64) as usize];
        visitor.visit_enum(Variant { inventor: self, variant })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        visitor.visit_newtype_struct(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Impossible> {
        unreachable!("records ask for types")
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char unit unit_struct tuple_struct map identifier ignored_any
    }
}

struct Elements<'a> {
    inventor: &'a mut Inventor,
    left: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Impossible;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Impossible> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.inventor).map(Some)
    }
}

struct Fields<'a> {
    inventor: &'a mut Inventor,
    fields: std::slice::Iter<'static, &'static str>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Impossible;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Impossible> {
        let field = self.fields.next();
        field.map(|field| seed.deserialize(StrDeserializer::new(field))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Impossible> {
        seed.deserialize(&mut *self.inventor)
    }
}

struct Variant<'a> {
    inventor: &'a mut Inventor,
    variant: &'static str,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Impossible;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Impossible> {
        Ok((seed.deserialize(self.variant.into_deserializer())?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Impossible;

    fn unit_variant(self) -> Result<(), Impossible> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Impossible> {
        seed.deserialize(self.inventor)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_seq(Elements { inventor: self.inventor, left: length })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        visitor.visit_map(Fields { inventor: self.inventor, fields: fields.iter() })
    }
}
