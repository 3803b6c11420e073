//! Renders a counterexample as a page of its own: no network, no other files.

use std::io;
use std::path::Path;

use minijinja::value::Serde;
use minijinja::{Environment, context};

use super::Counterexample;

impl Counterexample {
    /// The counterexample as an HTML page.
    pub fn to_html(&self) -> String {
        let mut environment = Environment::new();
        // The end of its name says that values are escaped.
        environment.add_template("page.html", include_str!("page.html")).expect("the template is valid");
        let template = environment.get_template("page.html").expect("it has been added");
        let (style, script) = (include_str!("page.css"), include_str!("page.js"));
        let page = template.render(context! { of => Serde(self), style, script });
        page.expect("the template names only what there is")
    }

    /// Writes the page to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_html(&self, file: impl AsRef<Path>) -> io::Result<()> {
        std::fs::write(file, self.to_html())
    }
}
