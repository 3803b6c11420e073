//! Renders a counterexample as a page of its own: no network, no other files.

use std::io;
use std::path::Path;

use minijinja::value::Serde;
use minijinja::{Environment, context};

use super::Counterexample;

impl Counterexample {
    /// The counterexample as an HTML page.
    pub fn to_html(&self) -> String {
        let (style, script) = (include_str!("page.css"), include_str!("page.js"));
        let values = context! { of => Serde(self), style, script };
        // The end of the name says that values are escaped.
        let page = Environment::new().render_named_str("page.html", include_str!("page.html"), values);
        page.expect("the template is valid, and names only what there is")
    }

    /// Writes the page to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_html(&self, file: impl AsRef<Path>) -> io::Result<()> {
        std::fs::write(file, self.to_html())
    }
}
