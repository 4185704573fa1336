/** Why a build ends whose template is deleted. */
export class TemplateDeleted extends Error {
  override readonly name = "TemplateDeleted";

  constructor() {
    super("the build was ended: its template was deleted");
  }
}
