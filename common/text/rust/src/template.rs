//! Chat templates (Jinja) of model files. The source is not trusted: steps, recursion, memory and output are bounded, and
//! a template can reach no other template, file or clock.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind};
use minijinja_contrib::pycompat;

use crate::memory::{run_limited, Outcome};
use crate::Failure;

const MAX_STEPS: u64 = 100_000;
const MAX_STEPS_PER_MESSAGE: u64 = 200;
const MAX_RECURSION: usize = 100;
const MAX_OUTPUT_BYTES: usize = 4 << 20;
// Values can be nested as deep as there are steps, and are dropped recursively. Only touched pages cost memory.
const STACK_BYTES: usize = 128 << 20;
// Conversations have at most a megabyte, of which a template makes a few copies. A fuzzer meets the limit often, and each
// time its process grows by what the template had taken.
const HEAP_BYTES: usize = if cfg!(feature = "fuzzing") { 8 << 20 } else { 128 << 20 };
const NAME: &str = "chat_template";

#[derive(Clone)]
pub struct Message {
    pub role: String,
    pub content: String,
}

pub struct Template {
    environment: Environment<'static>,
    source: String,
    bos: Option<String>,
    eos: Option<String>,
    exhausted: AtomicBool, // it took too much memory once, and will not get another chance
}

impl Template {
    pub fn new(source: &str, bos: Option<String>, eos: Option<String>) -> Result<Self, Failure> {
        let mut environment = Environment::new();
        // As transformers sets up Jinja.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_unknown_method_callback(pycompat::unknown_method_callback);
        environment.set_recursion_limit(MAX_RECURSION);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_filter("length", length);
        environment.add_filter("count", length);
        environment.add_test("iterable", is_iterable);
        environment.add_template_owned(NAME, without_generation_tags(source)).map_err(|error| {
            Failure::failed_precondition(format!("the model's chat template cannot be used: {error}"))
        })?;
        Ok(Template { environment, source: source.to_string(), bos, eos, exhausted: AtomicBool::new(false) })
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders each of the conversations, with the generation prompt.
    pub fn render<const N: usize>(&self, conversations: [Vec<Message>; N]) -> Result<[String; N], Failure> {
        let exhausted = || {
            Failure::failed_precondition(format!(
                "the model's chat template took more than {HEAP_BYTES} bytes of memory and is not used any more"
            ))
        };
        if self.exhausted.load(Ordering::Relaxed) {
            return Err(exhausted());
        }
        let environment = self.environment.clone();
        let (bos, eos) = (self.bos.clone(), self.eos.clone());
        let work = move || -> Result<[String; N], Failure> {
            let mut rendered = [const { String::new() }; N];
            for (output, messages) in rendered.iter_mut().zip(&conversations) {
                *output = render(&environment, &bos, &eos, messages)?;
            }
            Ok(rendered)
        };
        match run_limited(STACK_BYTES, HEAP_BYTES, work) {
            Ok(Outcome::Done(result)) => result,
            // On templates that ask for the impossible, as a list longer than memory has addresses.
            Ok(Outcome::Panicked) => Err(Failure::failed_precondition(
                "the model's chat template made its engine fail; the log has the place",
            )),
            Ok(Outcome::OutOfMemory) => {
                self.exhausted.store(true, Ordering::Relaxed);
                Err(exhausted())
            }
            Err(error) => Err(Failure::internal(format!("no thread for the template: {error}"))),
        }
    }
}

fn render(
    environment: &Environment<'static>,
    bos: &Option<String>,
    eos: &Option<String>,
    messages: &[Message],
) -> Result<String, Failure> {
    let values = messages
        .iter()
        .map(|message| Value::from_iter([("role", message.role.as_str()), ("content", message.content.as_str())]));
    let mut context =
        vec![("messages", Value::from(values.collect::<Vec<Value>>())), ("add_generation_prompt", Value::from(true))];
    // transformers names these in every call, so templates compare them with none.
    context.extend(["tools", "documents"].map(|name| (name, Value::from(()))));
    context.extend(bos.iter().map(|token| ("bos_token", Value::from(token.as_str()))));
    context.extend(eos.iter().map(|token| ("eos_token", Value::from(token.as_str()))));

    let max_steps = MAX_STEPS + MAX_STEPS_PER_MESSAGE * messages.len() as u64;
    let mut environment = environment.clone();
    environment.set_fuel(Some(max_steps));
    let mut output = Bounded(Vec::new());
    environment
        .get_template(NAME)
        .and_then(|template| template.render_captured_to(Value::from_iter(context), &mut output).map(|_| ()))
        .map_err(|error| refusal(&error, max_steps))?;
    String::from_utf8(output.0).map_err(|error| Failure::internal(error.to_string()))
}

fn refusal(error: &Error, max_steps: u64) -> Failure {
    Failure::invalid_argument(match error.kind() {
        ErrorKind::OutOfFuel => format!("the chat template did not finish within {max_steps} steps"),
        ErrorKind::WriteFailure => format!("the chat template wrote more than {MAX_OUTPUT_BYTES} bytes"),
        _ => format!("the chat template refused the messages: {error}"),
    })
}

/// What does not exist has length 0, as in Jinja.
fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    minijinja::filters::length(value)
}

/// None is not iterable, as in Jinja.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// {% generation %} and {% endgeneration %} mark, for training, what the assistant says. They render as what is between
/// them, which is what a condition that holds does; blanks around a tag are treated alike.
fn without_generation_tags(source: &str) -> String {
    let mut output = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(end) = rest[start..].find("%}").map(|end| start + end) else { break };
        let inside = &rest[start + 2..end];
        let word = inside.trim_matches(|c: char| c.is_ascii_whitespace() || c == '-' || c == '+');
        output.push_str(&rest[..start + 2]);
        output.push_str(&match word {
            "generation" => inside.replace(word, "if true"),
            "endgeneration" => inside.replace(word, "endif"),
            _ => inside.to_string(),
        });
        rest = &rest[end..];
    }
    output.push_str(rest);
    output
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// Always the same day, so that the same messages give the same tokens tomorrow and on another router; it is the day
/// that Llama's own template falls back to.
fn strftime_now(format: String) -> Result<String, Error> {
    let mut output = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            output.push(character);
            continue;
        }
        output.push_str(match characters.next() {
            Some('a') => "Fri",
            Some('A') => "Friday",
            Some('b') => "Jul",
            Some('B') => "July",
            Some('d') => "26",
            Some('m') => "07",
            Some('y') => "24",
            Some('Y') => "2024",
            Some('H' | 'M' | 'S') => "00",
            Some('%') => "%",
            _ => return Err(Error::new(ErrorKind::InvalidOperation, format!("strftime_now: format {format:?}"))),
        });
    }
    Ok(output)
}

struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > MAX_OUTPUT_BYTES - self.0.len() {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
